"""ESTIMATED_COST: how many rows each relational node is expected to give.

The sizes of tables are those that connectors measure; what filters and joins leave is Calcite's guess (RelMdUtil), which knows no
values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from planner.relational.nodes import (
    Aggregate,
    Filter,
    Join,
    Rank,
    RelationalNode,
    Sink,
    Sort,
    TableScan,
    Union,
    Values,
)
from sqlstream.catalog import ObjectPath
from sqlstream.expressions import Call, Expression, InputRef, Literal, conjuncts
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot

UNKNOWN_ROWS = 1e8
"""Flink's guess for a table of which nothing is known."""

_WIDTHS = {
    TypeRoot.BOOLEAN: 1, TypeRoot.TINYINT: 1, TypeRoot.SMALLINT: 2, TypeRoot.INTEGER: 4, TypeRoot.FLOAT: 4, TypeRoot.DATE: 4,
    TypeRoot.BIGINT: 8, TypeRoot.DOUBLE: 8, TypeRoot.TIME: 4, TypeRoot.TIMESTAMP: 8, TypeRoot.TIMESTAMP_LTZ: 8,
    TypeRoot.DECIMAL: 16,
}  # fmt: skip
_TEXT_WIDTH = 16
_SELECTIVITY = {"=": 0.15, "<>": 0.85, "IS NULL": 0.1, "IS NOT NULL": 0.9, "LIKE": 0.25}
_COMPARED = 0.5
_OTHER = 0.25
_GROUPS = 0.1
"""Of the input's rows, for each key that is no boolean."""


@dataclasses.dataclass(frozen=True)
class TableSizes:
    """The rows of tables, and where these are not known the bytes."""

    bytes: Mapping[ObjectPath, int]
    rows: Mapping[ObjectPath, int] = dataclasses.field(default_factory=dict)

    def rows_of(self, scan: TableScan) -> float:
        path, options = scan.table.path, dict(scan.options)
        if path in self.rows:
            return float(self.rows[path])
        if options.get("number-of-rows", "").isdecimal():
            return float(options["number-of-rows"])
        size = self.bytes.get(path)
        if size is None or not scan.is_bounded:
            return UNKNOWN_ROWS
        return max(1.0, size / row_width(scan.table.physical_schema())) if size else 0.0


def row_width(schema: Schema) -> int:
    """Bytes of a row, with texts of some length."""
    return max(1, sum(_WIDTHS.get(t.root, _TEXT_WIDTH) for t in schema.types))


def explain_cost(sinks: tuple[Sink, ...], sizes: TableSizes) -> str:
    """One line per node: its rows, and those of all nodes below it with their bytes, as Flink prints them."""
    estimates = _Estimates(sizes)
    return "\n".join(line for sink in sinks for line in estimates.lines(sink, "", ""))


class _Estimates:
    def __init__(self, sizes: TableSizes) -> None:
        self._sizes = sizes
        self._rows: dict[int, float] = {}

    def lines(self, node: RelationalNode, first: str, rest: str) -> Iterator[str]:
        seen: dict[int, RelationalNode] = {}
        pending = [node]
        while pending:
            below = pending.pop()
            if id(below) not in seen:
                seen[id(below)] = below
                pending += below.inputs
        rows = self.rows(node)
        total = sum(self.rows(n) for n in seen.values())
        size = sum(self.rows(n) * row_width(n.schema) for n in seen.values())
        cost = f"rowcount = {rows:.4G}, cumulative cost = {{{total:.4G} rows, {size:.4G} bytes}}"
        yield f"{first}{type(node).__name__}({node.describe()}): {cost}"
        for position, child in enumerate(node.inputs):
            is_last = position == len(node.inputs) - 1
            mark, following = ("+- ", "   ") if is_last else (":- ", ":  ")
            yield from self.lines(child, rest + mark, rest + following)

    def rows(self, node: RelationalNode) -> float:
        if id(node) not in self._rows:
            self._rows[id(node)] = self._estimated(node, [self.rows(i) for i in node.inputs])
        return self._rows[id(node)]

    def _estimated(self, node: RelationalNode, below: list[float]) -> float:
        match node:
            case TableScan():
                rows = self._sizes.rows_of(node)
                for part in node.filters:
                    rows *= _selectivity(part)
                return min(rows, node.limit) if node.limit >= 0 else rows
            case Values():
                return float(len(node.rows))
            case Filter():
                rows = below[0]
                for part in conjuncts(node.condition):
                    # What a scan has been told already it has left out.
                    is_told = isinstance(node.input, TableScan) and part in node.input.filters
                    rows *= 1.0 if is_told else _selectivity(part)
                return rows
            case Aggregate():
                return 1.0 if not node.keys else max(min(below[0], 1.0), below[0] * _GROUPS)
            case Join():
                # As if one side had the key of the other once.
                return max(below)
            case Sort():
                return min(below[0], node.fetch) if node.fetch >= 0 else below[0]
            case Rank():
                count = node.rank_end - node.rank_start + 1
                groups = below[0] * _GROUPS if node.partition_keys else 1.0
                return min(below[0], groups * count)
            case Union():
                return sum(below)
        return max(below, default=UNKNOWN_ROWS)


def _selectivity(condition: Expression) -> float:
    if isinstance(condition, Literal):
        return 1.0 if condition.value else 0.0
    if isinstance(condition, InputRef):
        return _COMPARED
    if not isinstance(condition, Call):
        return _OTHER
    if condition.function == "NOT":
        return 1 - _selectivity(condition.args[0])
    if condition.function == "AND":
        product = 1.0
        for part in condition.args:
            product *= _selectivity(part)
        return product
    if condition.function == "OR":
        return min(1.0, sum(_selectivity(part) for part in condition.args))
    if condition.function in ("<", ">", "<=", ">="):
        return _COMPARED
    return _SELECTIVITY.get(condition.function, _OTHER)
