"""The functions of the clock as Spark SQL: one instant for the whole query, as in Flink's batch mode."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.scope import Builder
from sqlstream.planner.lower.spark.types import DATE, INT, TIMESTAMP, whole
from sqlstream.times import DAY_MS
from sqlstream.types import TypeRoot


def _now(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    instant = tree.cast(tree.call("current_timestamp"), TIMESTAMP)
    if call.type.root is TypeRoot.TIMESTAMP_LTZ:
        return points.cut_off(instant, 3)
    local = points.to_local(instant, sql.timestamp_ltz(3), time_zone)
    match call.type.root:
        case TypeRoot.DATE:
            return tree.cast(local, DATE)
        case TypeRoot.TIME:
            of_day = tree.call("pmod", tree.call("unix_millis", points.cut_off(local, 0)), whole(DAY_MS))
            return tree.cast(of_day, INT)
    return points.cut_off(local, 3)


CLOCK: dict[str, Builder] = dict.fromkeys(
    (
        *("CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP"),
        *("CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"),
    ),
    _now,
)
"""By name of the function."""
