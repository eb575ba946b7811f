"""The functions of the clock in DuckDB: one instant for the whole query, as in Flink's batch mode."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.handler import Handler
from sqlstream.planner.lower.duckdb.local_time import to_local
from sqlstream.planner.lower.duckdb.second_digits import cut_off
from sqlstream.planner.lower.duckdb.types import DATE, TIME
from sqlstream.types import TypeRoot


def _now(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    instant = tree.call("make_timestamp", tree.call("epoch_us", tree.call("now")))
    if call.type.root is TypeRoot.TIMESTAMP_LTZ:
        return cut_off(instant, 3)
    local = to_local(instant, time_zone)
    match call.type.root:
        case TypeRoot.DATE:
            return tree.cast(local, DATE)
        case TypeRoot.TIME:
            return tree.cast(cut_off(local, 0), TIME)
    return cut_off(local, 3)


HANDLERS: dict[str, Handler] = dict.fromkeys(
    (
        *("CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP"),
        *("CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"),
    ),
    _now,
)
