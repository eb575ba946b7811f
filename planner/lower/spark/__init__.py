"""The relational plan as Spark SQL, for a session with `sqlstream.spark`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.planner.lower.hosting import HostedFunctions
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.lower.spark.dialect import SparkDialect
from sqlstream.planner.relational.nodes import RelationalNode


def lower_spark(
    node: RelationalNode,
    tables: Mapping[str, str],
    time_zone: str = "UTC",
    functions: HostedFunctions | None = None,
) -> str:
    """The text of `relation.lower` for Spark; `tables` maps a table's name to the relation (a view, or another item of FROM)
    with its rows. Spark calls no function of the stream: nothing is added to `functions`."""
    engine = SparkDialect(time_zone)
    return to_sql(lower(node, engine, lambda scan: tables.get(scan.table.path.name)), engine)
