"""docs/sql/functions.md: what the signatures and descriptions of the functions say, family by family."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from sqlstream import types as sql
from sqlstream.functions import (
    AGGREGATE_FUNCTIONS,
    REWRITTEN_AGGREGATES,
    REWRITTEN_SCALARS,
    SCALAR_FAMILIES,
    AggregateFunction,
    ScalarFunction,
)
from sqlstream.functions.signature import AGGREGATED, DescribedFunction
from sqlstream.types import LogicalType

_HEAD = """\
# Functions

What each function takes and returns, made from the signatures in
[sqlstream/functions/](../../sqlstream/functions). Rules that several of them share, and operators, are in
[expressions.md](expressions.md). `DESCRIBE FUNCTION name` prints the same.

The type of a result is that for the arguments which come first in the signature; "as its arguments" depends on theirs. NULL:
*any* means NULL where an argument is NULL, *never* that the result is not NULL, *other* that the sentence tells it
or that a value can have no result.
"""
_TABLE = "| function | result | NULL | |\n| --- | --- | --- | --- |"
_SAMPLES = tuple(
    t.not_null()
    for t in (
        *(
            sql.STRING,
            sql.INT,
            sql.BIGINT,
            sql.DOUBLE,
            sql.timestamp(3),
            sql.BOOLEAN,
            sql.SYMBOL,
            sql.BYTES,
            sql.BITMAP,
        ),
        *(sql.array(sql.INT), sql.array(sql.STRING), sql.map_of(sql.STRING, sql.INT), sql.VARIANT),
    )
)
_OF_ARGUMENTS = "as its arguments"


def functions_page() -> str:
    """The whole page, as markdown."""
    parts = [_HEAD]
    for title, functions in SCALAR_FAMILIES:
        rows = [_row(f, *_result(f)) for f in functions if f.description]
        if title == "Rows, arrays and maps":
            rows += [_row(f, "ROW", "other") for f in REWRITTEN_SCALARS.values()]
        if rows:
            parts.append(f"## {title}\n\n{_TABLE}\n" + "\n".join(rows) + "\n")
    aggregates = [_aggregate_row(f) for f in AGGREGATE_FUNCTIONS.values()]
    aggregates += [
        _row(f, "BIGINT" if f.name.startswith("APPROX") else "STRING", "other")
        for f in REWRITTEN_AGGREGATES.values()
    ]
    over = f"The examples are over the rows of `{AGGREGATED}`."
    parts.append(f"## Aggregates\n\n{over}\n\n{_TABLE}\n" + "\n".join(aggregates) + "\n")
    return "\n".join(parts)


def _aggregate_row(function: AggregateFunction) -> str:
    result, nulls = _result(function)
    return _row(function, result, "other" if nulls == "any" else nulls)


def _row(function: DescribedFunction, result: str, nulls: str) -> str:
    sentence = _cell(function.description)
    if function.example:
        sentence += f"<br>{_code(function.example)} → {_code(function.value) or 'an empty text'}"
    return f"| {_code(function.usage)} | {result} | {nulls} | {sentence} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{_cell(text)}{fence}" if text else ""


def _result(function: ScalarFunction | AggregateFunction) -> tuple[str, str]:
    """The type of a result, and when it is NULL."""
    counts = range(function.args_min, min(function.args_max, function.args_min + 2) + 1)
    taken = [found for count in counts for found in _accepted(function, count)]
    if not taken:
        return _OF_ARGUMENTS, "other"
    results = {str(result.with_nullable(True).without_time_attribute()) for _, result in taken}
    given, first = taken[0]
    if first.nullable:
        nulls = "other"
    else:
        nullable = _result_of(function, tuple(t.with_nullable(True) for t in given))
        nulls = "any" if nullable is not None and nullable.nullable else "never"
    return (_code(results.pop()) if len(results) == 1 else _OF_ARGUMENTS), nulls


def _accepted(
    function: ScalarFunction | AggregateFunction, count: int
) -> Iterator[tuple[tuple[LogicalType, ...], LogicalType]]:
    """Arguments of some kinds that the function takes, and its result."""
    for given in itertools.product(_SAMPLES if count <= 3 else _SAMPLES[:5], repeat=count):
        result = _result_of(function, given)
        if result is not None:
            yield given, result


def _result_of(
    function: ScalarFunction | AggregateFunction, given: tuple[LogicalType, ...]
) -> LogicalType | None:
    coerced = function.coerce(given)
    return None if coerced is None else function.result_type(coerced)
