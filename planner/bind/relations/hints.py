"""The hints of a SELECT: LOOKUP says how to look up, STATE_TTL for how long operators keep what they know of a table."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.config_option import parse_boolean, parse_duration_ms
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.bind.scope import FromItem
from sqlstream.planner.dialect.nodes import lookup_hints, state_ttl_hints
from sqlstream.planner.dialect.statements import Option
from sqlstream.planner.relational.nodes import Aggregate, Filter, Join, Project, RelationalNode, Window
from sqlstream.specs.join import RetryOnMiss

_CHOICES = {
    "async": ("true", "false"),
    "output-mode": ("ordered", "allow_unordered"),
    "retry-predicate": ("lookup_miss",),
    "retry-strategy": ("fixed_delay",),
    "shuffle": ("true", "false"),
}
_NUMBERS = ("capacity", "max-attempts")
_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
_KEYS = ("table", *_CHOICES, *_NUMBERS, "fixed-delay", "timeout")


@dataclasses.dataclass(frozen=True)
class LookupHint:
    """One LOOKUP(…): the name of its table in FROM, and what it asks for."""

    table: str
    span: Span
    retry: RetryOnMiss | None
    is_shuffled: bool


def read_lookup_hints(select: exp.Select) -> tuple[LookupHint, ...]:
    """The LOOKUP hints of a SELECT. UserError SS4002, SS4003 and SS4005 for their options."""
    return tuple(_read_hint(options, select) for options in lookup_hints(select))


def check_hints_used(hints: tuple[LookupHint, ...], select: exp.Select) -> None:
    """UserError SS4003 for a hint that names no looked-up table of the FROM clause."""
    names: set[str] = set()
    for join in select.args.get("joins") or ():
        table = join.this
        if isinstance(table, exp.Table) and table.args.get("version") is not None:
            names |= {str(table.name), str(table.alias_or_name)}
    unused = next((h for h in hints if h.table not in names), None)
    if unused is not None:
        raise UserError(
            "SS4003",
            f'the hint LOOKUP names "{unused.table}", which this FROM does not join FOR SYSTEM_TIME AS OF',
            span=unused.span,
            hint=did_you_mean(unused.table, sorted(names)) or "name the alias of the looked-up table",
        )


def _read_hint(options: tuple[Option, ...], select: exp.Select) -> LookupHint:
    given = {option.key: option for option in options}
    for option in options:
        _check_option(option)
    if "table" not in given:
        raise UserError(
            "SS4005",
            'the hint LOOKUP needs the option "table"',
            span=options[0].key_span if options else None,
            hint="write LOOKUP('table'='d', …) with the alias of the looked-up table",
        )
    shuffle = given.get("shuffle")
    return LookupHint(
        given["table"].value,
        given["table"].value_span,
        _retry(given),
        shuffle is not None and parse_boolean(shuffle.value),
    )


def _check_option(option: Option) -> None:
    key, value = option.key, option.value
    if key not in _KEYS:
        hint = did_you_mean(key, _KEYS) or f"the options are {', '.join(_KEYS)}"
        raise UserError("SS4003", f'the hint LOOKUP has no option "{key}"', span=option.key_span, hint=hint)
    if key == "timeout":
        raise UserError(
            "SS4003",
            'option "timeout" of the hint LOOKUP is not supported',
            span=option.key_span,
            hint="a batch is looked up by one query, in order, and without a time limit: leave it out",
        )
    if key in _CHOICES and value.lower() not in _CHOICES[key]:
        choices = " or ".join(_CHOICES[key])
        raise UserError(
            "SS4002",
            f'option "{key}" takes {choices}, not "{value}"',
            span=option.value_span,
            hint=f"write '{key}'='{_CHOICES[key][0]}'",
        )
    if key in _NUMBERS and not (value.isdecimal() and int(value) > 0):
        raise UserError(
            "SS4002",
            f'option "{key}" takes a positive number, not "{value}"',
            span=option.value_span,
            hint=f"write '{key}'='3'",
        )


def _retry(given: dict[str, Option]) -> RetryOnMiss | None:
    present = [key for key in _RETRY if key in given]
    if not present:
        return None
    missing = next((key for key in _RETRY if key not in given), None)
    if missing is not None:
        raise UserError(
            "SS4005",
            f'a retry needs the option "{missing}" too',
            span=given[present[0]].key_span,
            hint="write 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='1s',"
            " 'max-attempts'='3'",
        )
    delay = given["fixed-delay"]
    try:
        delay_ms = parse_duration_ms(delay.value)
    except ValueError as error:
        raise UserError(
            "SS4002",
            f'option "fixed-delay" takes a duration, not "{delay.value}"',
            span=delay.value_span,
            hint="write a number and a unit such as '500 ms' or '1 s'",
        ) from error
    attempts = given["max-attempts"]
    return RetryOnMiss(
        within_64_bits('option "max-attempts"', int(attempts.value), attempts),
        within_64_bits('option "fixed-delay"', delay_ms, delay),
    )


def within_64_bits(what: str, number: int, option: Option) -> int:
    """The number that an option of a hint gives. UserError SS4002 beyond 64 bits, which no plan holds."""
    if number > 2**63 - 1:
        raise UserError(
            "SS4002",
            f'{what} must be at most {2**63 - 1}, not "{option.value}"',
            span=option.value_span,
            hint="give a smaller one",
        )
    return number


# The hint STATE_TTL: for how long operators of a SELECT keep what they know of a table.


class StateTtl:
    """The hints of one SELECT by the names of the tables; those that have been applied are noted."""

    def __init__(self, select: exp.Select) -> None:
        self._ttls: dict[str, tuple[int, Span]] = {}
        for option in state_ttl_hints(select):
            if option.key in self._ttls:
                message = f'the hint STATE_TTL names "{option.key}" twice'
                raise UserError("SS4003", message, span=option.key_span, hint="give it once")
            try:
                ttl_ms = parse_duration_ms(option.value)
            except ValueError as error:
                raise UserError(
                    "SS4002",
                    f'the hint STATE_TTL takes a duration, not "{option.value}"',
                    span=option.value_span,
                    hint="write a number and a unit such as '12 h' or '1 d'; '0 s' keeps rows for ever",
                ) from error
            self._ttls[option.key] = within_64_bits("the hint STATE_TTL", ttl_ms, option), option.key_span
        self._is_joined = False
        self._names: set[str] = set()
        self._used: set[str] = set()

    def joined(self, item: FromItem, left: FromItem, right: FromItem) -> FromItem:
        """The join of the two, with what the hints say of its sides."""
        self._is_joined = True
        if not self._ttls:
            return item
        ttls = self._of(left), self._of(right)
        return item if ttls == (None, None) else FromItem(_with_sides(item.node, ttls), item.scope)

    def grouped(self, node: RelationalNode, source: FromItem) -> RelationalNode:
        """The SELECT over `source`, with what the hints say of its only table."""
        # A half join has the columns of its left table alone, and is a join all the same.
        if not self._ttls or self._is_joined:
            return node
        ttl_ms = self._of(source)
        if ttl_ms is not None:
            made = _with_lifetime(node, source.node, ttl_ms)
            if made == node:
                name = source.qualifier[-1]
                raise UserError(
                    "SS3497",
                    f'the hint STATE_TTL of "{name}" has no use: the SELECT neither joins, aggregates nor ranks its rows',
                    span=self._ttls[name][1],
                    hint="write it into the SELECT that does",
                )
            node = made
        return node

    def check_used(self) -> None:
        """UserError SS4003 for a name that is none of a table in FROM, or of one whose rows no operator here keeps."""
        for name, (_, span) in self._ttls.items():
            if name in self._used:
                continue
            raise UserError(
                "SS4003",
                f'the hint STATE_TTL names "{name}", which is no table of this FROM that a regular join or an aggregation keeps',
                span=span,
                hint=did_you_mean(name, sorted(self._names)) or "name the alias of the table",
            )

    def _of(self, item: FromItem) -> int | None:
        name = item.qualifier[-1] if item.qualifier else ""
        self._names.add(name)
        if name not in self._ttls:
            return None
        self._used.add(name)
        return self._ttls[name][0]


def _with_sides(node: RelationalNode, ttls: tuple[int | None, int | None]) -> RelationalNode:
    match node:
        case Join():
            return dataclasses.replace(node, ttls_ms=ttls)
        case Project() | Filter():
            return node.with_inputs((_with_sides(node.input, ttls),))
    return node


def _with_lifetime(node: RelationalNode, source: RelationalNode, ttl_ms: int) -> RelationalNode:
    """The aggregations and OVER between the SELECT and its FROM."""
    if node is source or not node.inputs:
        return node
    below = _with_lifetime(node.inputs[0], source, ttl_ms)
    made = node if below is node.inputs[0] else node.with_inputs((below, *node.inputs[1:]))
    return dataclasses.replace(made, ttl_ms=ttl_ms) if isinstance(made, Aggregate | Window) else made
