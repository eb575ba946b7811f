"""All scalar functions that DuckDB computes exactly as a stream, and those that it does not."""

from __future__ import annotations

from sqlglot import exp

from planner.lower.duckdb import clock, collections, logic, numbers, patterns, strings, time_functions, times
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
    **collections.HANDLERS,
    **numbers.HANDLERS,
    **strings.HANDLERS,
    **patterns.HANDLERS,
    **time_functions.HANDLERS,
    **times.HANDLERS,
    **clock.HANDLERS,
}

REFUSED: dict[str, str] = {
    "PROCTIME": "the rows of a batch arrive at no time that could order them",
    "RAND": "an engine may compute it again where the value is read twice",
    "RAND_INTEGER": "an engine may compute it again where the value is read twice",
    "UUID": "an engine may compute it again where the value is read twice",
}
"""The other scalar functions, each with the reason."""
