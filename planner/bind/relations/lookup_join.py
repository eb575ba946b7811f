"""JOIN … FOR SYSTEM_TIME AS OF, and the LOOKUP hints of a SELECT."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.config_option import parse_boolean, parse_duration_ms
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.expressions import Expression, InputRef
from sqlstream.planner.bind.expressions.casts import plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.joins import bind_join
from sqlstream.planner.bind.relations.temporal_join import bind_temporal_join
from sqlstream.planner.bind.scope import FromItem, Namespace
from sqlstream.planner.dialect.nodes import lookup_hints
from sqlstream.planner.dialect.statements import Option
from sqlstream.planner.relational.nodes import Join, LookupJoin, Project, RelationalNode
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import RetryOnMiss
from sqlstream.types import is_proctime, is_rowtime

_KINDS = ("INNER", "LEFT")


@dataclasses.dataclass(frozen=True)
class LookupHint:
    """One LOOKUP(…): the name of its table in FROM, and what it asks for."""

    table: str
    span: Span
    retry: RetryOnMiss | None
    is_shuffled: bool


def bind_lookup_join(
    left: FromItem, right: FromItem, join: exp.Join, hints: Iterable[LookupHint], namespace: Namespace
) -> FromItem:
    """`left` joined with the rows that `right` has as of a time of `left`: by key as of a processing time, versions as of a row
    time. UserError SS3001 for kinds of joins that need the whole table."""
    version = join.this.args["version"]
    span = namespace.span(version)
    time = _time(left, version, namespace)
    kind = str(join.args.get("side") or join.args.get("kind") or "INNER").replace("CROSS", "INNER")
    if kind not in _KINDS:
        raise UserError(
            "SS3001",
            f"a {kind} JOIN with FOR SYSTEM_TIME AS OF is not possible",
            span=namespace.span(join),
            hint="use an INNER or a LEFT join",
        )
    if is_rowtime(time.type):
        return bind_temporal_join(left, right, join, time, namespace)
    joined = bind_join(left, _without_time(right), join, namespace)
    node = joined.node
    assert isinstance(node, Join)
    names = {str(join.this.name), *(str(n) for n in right.qualifier[-1:])}
    hint = next((h for h in hints if h.table in names), None)
    lookup = LookupJoin(
        left=node.left,
        right=node.right,
        kind=node.kind,
        condition=node.condition,
        schema=node.schema,
        span=span,
        retry=hint.retry if hint is not None else None,
        is_shuffled=hint is not None and hint.is_shuffled,
    )
    return FromItem(lookup, joined.scope)


def refuse_system_time(item: exp.Expr, namespace: Namespace) -> None:
    """UserError SS3001 where FOR SYSTEM_TIME stands at a table that is not joined to another."""
    version = item.args.get("version") if isinstance(item, exp.Table) else None
    if version is not None:
        raise UserError(
            "SS3001",
            "FOR SYSTEM_TIME AS OF needs a table on its left to look up for",
            span=namespace.span(version),
            hint="write orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.proctime AS d ON o.k = d.k",
        )


def _time(left: FromItem, version: exp.Expr, namespace: Namespace) -> Expression:
    time = ScalarBinder(namespace, left.scope, "FOR SYSTEM_TIME AS OF").bind(version.this)
    if not is_proctime(time.type) and not is_rowtime(time.type):
        raise UserError(
            "SS2010",
            f"FOR SYSTEM_TIME AS OF takes a time attribute of the left table, not {plain(time.type)}",
            span=namespace.span(version),
            hint="declare a column AS PROCTIME() in the left table, or a WATERMARK for the column",
        )
    return time


def _without_time(right: FromItem) -> FromItem:
    """The item with plain columns in place of time attributes: they do not drive the time of the joined rows."""
    node: RelationalNode = right.node
    if not any(is_rowtime(t) or is_proctime(t) for t in node.schema.types):
        return right
    types = tuple(t.without_time_attribute() for t in node.schema.types)
    node = Project(
        input=node,
        expressions=tuple(InputRef(i, t) for i, t in enumerate(types)),
        schema=Schema(tuple(Field(f.name, t) for f, t in zip(node.schema.fields, types, strict=True))),
        span=node.span,
    )
    columns = tuple(dataclasses.replace(c, type=t) for c, t in zip(right.scope.columns, types, strict=True))
    return FromItem(node, dataclasses.replace(right.scope, columns=columns))


# --- hints ------------------------------------------------------------------------------------------------------------


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
        raise UserError("SS4002", f'option "{key}" takes {choices}, not "{value}"', span=option.value_span)
    if key in _NUMBERS and not (value.isdecimal() and int(value) > 0):
        raise UserError(
            "SS4002", f'option "{key}" takes a positive number, not "{value}"', span=option.value_span
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
            "SS4002", f'{what} must be at most {2**63 - 1}, not "{option.value}"', span=option.value_span
        )
    return number
