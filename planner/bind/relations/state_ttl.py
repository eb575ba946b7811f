"""The hint STATE_TTL: for how long operators of a SELECT keep what they know of a table."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from sqlstream.config_option import parse_duration_ms
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.bind.relations.lookup_join import within_64_bits
from sqlstream.planner.bind.scope import FromItem
from sqlstream.planner.dialect.nodes import state_ttl_hints
from sqlstream.planner.relational.nodes import Aggregate, Filter, Join, Project, RelationalNode, Window

CODE = "SS3497"


class StateTtl:
    """The hints of one SELECT by the names of the tables; those that have been applied are noted."""

    def __init__(self, select: exp.Select) -> None:
        self._ttls: dict[str, tuple[int, Span]] = {}
        for option in state_ttl_hints(select):
            if option.key in self._ttls:
                message = f'the hint STATE_TTL names "{option.key}" twice'
                raise UserError("SS4003", message, span=option.key_span)
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
                    CODE,
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
