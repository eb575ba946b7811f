"""The relational plan as DuckDB SQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.planner.lower.duckdb.dialect import DuckDbDialect
from sqlstream.planner.lower.hosting import HostedFunctions
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.relational.nodes import RelationalNode


def lower_duckdb(
    node: RelationalNode,
    tables: Mapping[str, str],
    time_zone: str = "UTC",
    functions: HostedFunctions | None = None,
) -> str:
    """The text of `relation.lower` in DuckDB; `tables` maps a table's name to the DuckDB relation (a name or a FROM item)
    with its rows. `functions` takes what the stream's own functions compute; None: they compute nothing."""
    engine = DuckDbDialect(time_zone, functions=functions)
    return to_sql(lower(node, engine, lambda scan: tables.get(scan.table.path.name)), engine)
