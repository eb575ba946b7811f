"""The bound, un-optimised relational plan as DuckDB SQL, whose batch answer a finished stream must equal.

Inner columns are named by position: c0, c1, …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.lower.duckdb_aggregates import lower_aggregate_call
from planner.lower.duckdb_expressions import ExpressionLowering
from planner.lower.duckdb_types import literal, quote, type_name
from planner.lower.duckdb_windows import lower_window_tvf
from planner.lower.refusals import refuse
from planner.relational import nodes as plan
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, Literal, SortKey

_JOINS = {
    plan.RelationalJoinKind.INNER: "JOIN",
    plan.RelationalJoinKind.LEFT: "LEFT JOIN",
    plan.RelationalJoinKind.RIGHT: "RIGHT JOIN",
    plan.RelationalJoinKind.FULL: "FULL JOIN",
}


def lower_duckdb(node: plan.RelationalNode, tables: Mapping[str, str], time_zone: str = "UTC") -> str:
    """One SELECT with the columns of `node`; rows in order when `node` sorts.

    `tables` maps a table's name to the DuckDB relation (a name or a FROM item) with its rows; the relation has the table's
    columns under their names. A batch has no late rows, and ties of ORDER BY may be in any order. UserError SS3301 for what
    DuckDB cannot answer exactly as the stream does, also in columns that no consumer reads.
    """
    names = node.schema.names
    if isinstance(node, plan.Sink):
        node = node.input
    lowering = _Lowering(tables, time_zone)
    # Qualified, since the user may have a column named "c1".
    columns = ", ".join(f"o.c{i} AS {quote(name)}" for i, name in enumerate(names))
    order = _order(node.order, "o.") if isinstance(node, plan.Sort) else ""
    return f"SELECT {columns} FROM ({lowering.relation(node)}) AS o{order}"


class _Lowering:
    """Translates nodes to SELECTs, inputs first."""

    def __init__(self, tables: Mapping[str, str], time_zone: str) -> None:
        self._tables = tables
        self._time_zone = time_zone

    def relation(self, node: plan.RelationalNode) -> str:
        """A SELECT with columns c0, c1, …; errors point at the node."""
        try:
            return self._relation(node)
        except UserError as error:
            raise error.at(node.span) from None

    def _relation(self, node: plan.RelationalNode) -> str:
        match node:
            case plan.TableScan():
                return self._scan(node)
            case plan.Values():
                return _values(node)
            case plan.Filter():
                source = self.relation(node.input)
                return f"SELECT * FROM ({source}) AS i WHERE {self._expression(node.condition)}"
            case plan.Project():
                return self._project(node)
            case plan.Watermark():
                return self.relation(node.input)
            case plan.WindowTvf():
                return lower_window_tvf(node, self.relation(node.input))
            case plan.Aggregate():
                return self._aggregate(node)
            case plan.RowNumber() | plan.Rank():
                return self._ranked(node)
            case plan.Sort():
                return f"SELECT * FROM ({self.relation(node.input)}){_order(node.order)}{_limit(node)}"
            case plan.Join():
                return self._join(node)
            case plan.Union():
                return " UNION ALL ".join(f"SELECT * FROM ({self.relation(b)})" for b in node.branches)
        raise refuse(f"a {type(node).__name__}")

    def _expression(self, expression: Expression) -> str:
        return ExpressionLowering(lambda i: f"i.c{i}", self._time_zone).render(expression)

    def _scan(self, node: plan.TableScan) -> str:
        name = node.table.path.name
        if node.metadata:
            raise refuse(f'metadata column "{node.metadata[0].name}"')
        if name not in self._tables:
            raise refuse(f'table "{name}"')
        columns = [
            f"CAST(s.{quote(c)} AS {type_name(t)}) AS c{i}"
            for i, (c, t) in enumerate(zip(node.columns, node.schema.types, strict=True))
        ]
        return f"SELECT {', '.join(columns)} FROM {self._tables[name]} AS s"

    def _project(self, node: plan.Project) -> str:
        columns = [f"{self._expression(e)} AS c{i}" for i, e in enumerate(node.expressions)]
        return f"SELECT {', '.join(columns)} FROM ({self.relation(node.input)}) AS i"

    def _aggregate(self, node: plan.Aggregate) -> str:
        keys = [f"i.c{k} AS c{i}" for i, k in enumerate(node.keys)]
        calls = [
            f"{lower_aggregate_call(call, node.input.schema)} AS c{len(keys) + i}"
            for i, call in enumerate(node.calls)
        ]
        text = f"SELECT {', '.join(keys + calls)} FROM ({self.relation(node.input)}) AS i"
        return f"{text} GROUP BY {', '.join(f'i.c{k}' for k in node.keys)}" if node.keys else text

    def _ranked(self, node: plan.RowNumber | plan.Rank) -> str:
        width = len(node.input.schema)
        partition = (
            f"PARTITION BY {', '.join(f'c{k}' for k in node.partition_keys)}" if node.partition_keys else ""
        )
        number = f"row_number() OVER ({partition}{_order(node.order)}) AS c{width}"
        ranked = f"SELECT *, {number} FROM ({self.relation(node.input)})"
        if isinstance(node, plan.RowNumber):
            return ranked
        columns = ", ".join(f"c{i}" for i in range(width + node.outputs_rank))
        return (
            f"SELECT {columns} FROM ({ranked}) WHERE c{width} BETWEEN {node.rank_start} AND {node.rank_end}"
        )

    def _join(self, node: plan.Join) -> str:
        if node.kind not in _JOINS:
            raise refuse(f"a {node.kind.value} join")
        left_width = len(node.left.schema)

        def column(index: int) -> str:
            return f"l.c{index}" if index < left_width else f"r.c{index - left_width}"

        columns = ", ".join(f"{column(i)} AS c{i}" for i in range(len(node.schema)))
        condition = "TRUE"
        if node.condition is not None:
            condition = ExpressionLowering(column, self._time_zone).render(node.condition)
        return (
            f"SELECT {columns} FROM ({self.relation(node.left)}) AS l {_JOINS[node.kind]}"
            f" ({self.relation(node.right)}) AS r ON {condition}"
        )


def _values(node: plan.Values) -> str:
    width = range(len(node.schema))
    if not node.rows:
        return f"SELECT {', '.join(f'{literal(Literal(None, t))} AS c{i}' for i, t in enumerate(node.schema.types))} WHERE FALSE"
    rows = ", ".join(
        "(" + ", ".join(literal(Literal(v, t)) for v, t in zip(row, node.schema.types, strict=True)) + ")"
        for row in node.rows
    )
    return f"SELECT * FROM (VALUES {rows}) AS t({', '.join(f'c{i}' for i in width)})"


def _order(keys: Iterable[SortKey], qualifier: str = "") -> str:
    written = [
        f"{qualifier}c{k.column} {'DESC' if k.is_descending else 'ASC'} NULLS {'FIRST' if k.is_nulls_first else 'LAST'}"
        for k in keys
    ]
    return f" ORDER BY {', '.join(written)}" if written else ""


def _limit(node: plan.Sort) -> str:
    return (f" LIMIT {node.fetch}" if node.fetch >= 0 else "") + (
        f" OFFSET {node.offset}" if node.offset else ""
    )
