"""All scalar functions that DuckDB computes exactly as a stream, and those that it does not."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.functions import bitmap, json
from sqlstream.planner.lower.duckdb import (
    arrays,
    clock,
    collections,
    encodings,
    logic,
    numbers,
    patterns,
    strings,
    time_functions,
    times,
)
from sqlstream.planner.lower.duckdb.casts import cast
from sqlstream.planner.lower.duckdb.handler import Handler


def _cast(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_try = call.function == "TRY_CAST"
    return cast(args[0], call.args[0].type, call.type, time_zone, is_try=is_try)


HANDLERS: dict[str, Handler] = {
    "CAST": _cast,
    "TRY_CAST": _cast,
    **logic.HANDLERS,
    **collections.HANDLERS,
    **arrays.HANDLERS,
    **encodings.HANDLERS,
    **numbers.HANDLERS,
    **strings.HANDLERS,
    **patterns.HANDLERS,
    **time_functions.HANDLERS,
    **times.HANDLERS,
    **clock.HANDLERS,
}

REFUSED: dict[str, str] = {
    **dict.fromkeys((f.name for f in bitmap.FUNCTIONS), bitmap.BATCH_REASON),
    "PRINTF": "an engine rounds and pads otherwise than Java",
    "CONVERT_TZ": "an engine reads other texts as times",
    "KEY_BYTES": "an engine compares the values themselves",
    "CURRENT_DATABASE": "a statement has it as a constant",
    **dict.fromkeys((f.name for f in json.FUNCTIONS), json.JSON_REASON),
    **dict.fromkeys(("SHA224", "SHA384", "SHA512"), "of SHA-2 an engine has SHA-256 only"),
    **dict.fromkeys(("ENCODE", "DECODE"), "an engine has UTF-8 only"),
    "MAKE_VALID_UTF8": "an engine does not replace malformed bytes",
    "PARSE_URL": "an engine has no parts of a URL",
    "ORDERED_ARRAY": "what it orders NaN and texts by is ours",
    "ORDERED_LIST": "what it orders NaN and texts by is ours",
    "CURRENT_WATERMARK": "the rows of a batch have no watermark",
    "PROCTIME": "the rows of a batch arrive at no time that could order them",
    "RAND": "an engine may compute it again where the value is read twice",
    "RAND_INTEGER": "an engine may compute it again where the value is read twice",
    "STR_TO_MAP": "an engine splits a pair at each of its delimiters, not only at the first",
    "UUID": "an engine may compute it again where the value is read twice",
}
"""The other scalar functions, each with the reason. Where it can, a query has the stream's own compute them (hosting.py)."""
