"""All scalar functions that DuckDB computes exactly as a stream."""

from __future__ import annotations

from sqlglot import exp

from planner.lower.duckdb import logic, numbers, strings, times
from planner.lower.duckdb.casts import cast
from planner.lower.duckdb.handler import Handler
from sqlstream.expressions import Call


def _cast(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_try = call.function == "TRY_CAST"
    return cast(args[0], call.args[0].type, call.type, time_zone, is_try=is_try)


HANDLERS: dict[str, Handler] = {
    "CAST": _cast,
    "TRY_CAST": _cast,
    **logic.HANDLERS,
    **numbers.HANDLERS,
    **strings.HANDLERS,
    **times.HANDLERS,
}
