"""ESTIMATED_COST: how many rows each relational node is expected to give.

The sizes of tables are those that connectors measure or ANALYZE TABLE has counted. What filters, groups and joins leave follows
from the counts of different values, and without them is Calcite's guess (RelMdUtil).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

from sqlstream.catalog import ObjectPath
from sqlstream.expressions import Call, Expression, InputRef, Literal, conjuncts
from sqlstream.planner.relational import nodes as plan
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
class TableStatistics:
    """What ANALYZE TABLE has counted: rows, and of columns the different values."""

    rows: int
    distinct: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TableSizes:
    """The bytes of tables, and for those that were analyzed more."""

    bytes: Mapping[ObjectPath, int]
    statistics: Mapping[ObjectPath, TableStatistics] = dataclasses.field(default_factory=dict)

    def rows_of(self, scan: plan.TableScan) -> float:
        path, options = scan.table.path, dict(scan.options)
        if path in self.statistics:
            return float(self.statistics[path].rows)
        if options.get("number-of-rows", "").isdecimal():
            return float(options["number-of-rows"])
        size = self.bytes.get(path)
        if size is None or not scan.is_bounded:
            return UNKNOWN_ROWS
        return max(1.0, size / row_width(scan.table.physical_schema())) if size else 0.0

    def distinct(self, node: plan.RelationalNode, column: int) -> int | None:
        """How many values a column has in the table that it comes from."""
        origin: tuple[plan.RelationalNode, int] | None = (node, column)
        while origin is not None:
            node, column = origin
            if isinstance(node, plan.TableScan):
                known = self.statistics.get(node.table.path)
                return known.distinct.get(node.schema.names[column]) if known is not None else None
            origin = node.origin(column)
        return None


def row_width(schema: Schema) -> int:
    """Bytes of a row, with texts of some length."""
    return max(1, sum(_WIDTHS.get(t.root, _TEXT_WIDTH) for t in schema.types))


def explain_cost(sinks: tuple[plan.Sink, ...], sizes: TableSizes) -> str:
    """One line per node: its rows, and those of all nodes below it with their bytes, as Flink prints them."""
    estimates = _Estimates(sizes)
    return "\n".join(line for sink in sinks for line in estimates.lines(sink, "", ""))


class _Estimates:
    def __init__(self, sizes: TableSizes) -> None:
        self._sizes = sizes
        self._rows: dict[int, float] = {}

    def lines(self, node: plan.RelationalNode, first: str, rest: str) -> Iterator[str]:
        seen: dict[int, plan.RelationalNode] = {}
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

    def rows(self, node: plan.RelationalNode) -> float:
        if id(node) not in self._rows:
            self._rows[id(node)] = self._estimated(node, [self.rows(i) for i in node.inputs])
        return self._rows[id(node)]

    def _estimated(self, node: plan.RelationalNode, below: list[float]) -> float:
        match node:
            case plan.TableScan():
                rows = self._sizes.rows_of(node)
                for part in node.filters:
                    rows *= self._selectivity(part, node)
                return min(rows, node.limit) if node.limit >= 0 else rows
            case plan.Values():
                return float(len(node.rows))
            case plan.Filter():
                rows = below[0]
                for part in conjuncts(node.condition):
                    # What a scan has been told already it has left out.
                    is_told = isinstance(node.input, plan.TableScan) and part in node.input.filters
                    rows *= 1.0 if is_told else self._selectivity(part, node.input)
                return rows
            case plan.Aggregate():
                return self._groups(node.input, node.keys, below[0])
            case plan.Join():
                return self._joined(node, below)
            case plan.Sort():
                return min(below[0], node.fetch) if node.fetch >= 0 else below[0]
            case plan.Rank():
                count = node.rank_end - node.rank_start + 1
                groups = self._groups(node.input, node.partition_keys, below[0])
                return min(below[0], groups * count)
            case plan.Union():
                return sum(below)
        return max(below, default=UNKNOWN_ROWS)

    def _groups(self, source: plan.RelationalNode, keys: tuple[int, ...], rows: float) -> float:
        if not keys:
            return 1.0
        counts = [self._sizes.distinct(source, key) for key in keys]
        if any(count is None for count in counts):
            return max(min(rows, 1.0), rows * _GROUPS)
        return min(rows, math.prod(count for count in counts if count is not None))

    def _joined(self, node: plan.Join, below: list[float]) -> float:
        """Rows of both sides over the values of the key; without counts, as if one side had each key once."""
        left, right = below
        width = len(node.left.schema)
        for part in conjuncts(node.condition) if node.condition is not None else ():
            if (
                isinstance(part, Call)
                and part.function == "="
                and all(isinstance(a, InputRef) for a in part.args)
            ):
                places = sorted(a.index for a in part.args if isinstance(a, InputRef))
                if places[0] < width <= places[1]:
                    counts = (
                        self._sizes.distinct(node.left, places[0]),
                        self._sizes.distinct(node.right, places[1] - width),
                    )
                    known = [count for count in counts if count]
                    return left * right / max(known) if known else max(left, right)
        return left * right

    def _selectivity(self, condition: Expression, source: plan.RelationalNode) -> float:
        if isinstance(condition, Call) and condition.function == "=":
            columns = [a for a in condition.args if isinstance(a, InputRef)]
            is_of_literal = any(isinstance(a, Literal) for a in condition.args)
            if (
                len(columns) == 1
                and is_of_literal
                and (count := self._sizes.distinct(source, columns[0].index))
            ):
                return 1 / count
        return _selectivity(condition)


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
