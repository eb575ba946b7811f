"""docs/sql/functions.md: what the signatures and descriptions of the functions say, family by family."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from sqlstream import types as sql
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FAMILIES
from sqlstream.functions.descriptions import DESCRIPTIONS
from sqlstream.functions.rewritten import REWRITTEN_AGGREGATES, REWRITTEN_SCALARS
from sqlstream.functions.signature import AggregateFunction, ScalarFunction
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
        rows = [_scalar_row(f) for f in functions if f.name in DESCRIPTIONS]
        if title == "Rows, arrays and maps":
            rows += [_row(usage, name, "ROW", "other") for name, usage in REWRITTEN_SCALARS.items()]
        if rows:
            parts.append(f"## {title}\n\n{_TABLE}\n" + "\n".join(rows) + "\n")
    aggregates = [_aggregate_row(f) for f in AGGREGATE_FUNCTIONS.values()]
    aggregates += [
        _row(usage, name, "BIGINT" if name.startswith("APPROX") else "STRING", "other")
        for name, usage in REWRITTEN_AGGREGATES.items()
    ]
    parts.append(f"## Aggregates\n\n{_TABLE}\n" + "\n".join(aggregates) + "\n")
    return "\n".join(parts)


def _scalar_row(function: ScalarFunction) -> str:
    result, nulls = _result(function, _scalar_result)
    return _row(function.usage, function.name, result, nulls)


def _aggregate_row(function: AggregateFunction) -> str:
    result, nulls = _result(function, _aggregate_result)
    return _row(function.usage, function.name, result, "other" if nulls == "any" else nulls)


def _row(usage: str, name: str, result: str, nulls: str) -> str:
    described = DESCRIPTIONS[name]
    sentence = _cell(described.sentence)
    if described.example:
        sentence += f"<br>{_code(described.example)} → {_code(described.value) or 'an empty text'}"
    return f"| {_code(usage)} | {result} | {nulls} | {sentence} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{_cell(text)}{fence}" if text else ""


def _result(function: ScalarFunction | AggregateFunction, result_of: object) -> tuple[str, str]:
    """The type of a result, and when it is NULL."""
    assert callable(result_of)
    counts = range(function.args_min, min(function.args_max, function.args_min + 2) + 1)
    taken = [given for count in counts for given in _accepted(function, count, result_of)]
    if not taken:
        return _OF_ARGUMENTS, "other"
    results = {
        str(result_of(function, given).with_nullable(True).without_time_attribute()) for given in taken
    }
    given = taken[0]
    first: LogicalType = result_of(function, given)
    if first.nullable:
        nulls = "other"
    else:
        nullable = result_of(function, tuple(t.with_nullable(True) for t in given))
        nulls = "any" if nullable is not None and nullable.nullable else "never"
    return (_code(results.pop()) if len(results) == 1 else _OF_ARGUMENTS), nulls


def _accepted(
    function: ScalarFunction | AggregateFunction, count: int, result_of: object
) -> Iterable[tuple[LogicalType, ...]]:
    """Arguments of some kinds that the function takes."""
    assert callable(result_of)
    samples = _SAMPLES if count <= 3 else _SAMPLES[:5]
    return (g for g in itertools.product(samples, repeat=count) if result_of(function, g) is not None)


def _scalar_result(function: ScalarFunction, given: tuple[LogicalType, ...]) -> LogicalType | None:
    coerced = function.coerce(given)
    return None if coerced is None else function.result_type(coerced)


def _aggregate_result(function: AggregateFunction, given: tuple[LogicalType, ...]) -> LogicalType | None:
    coerced = function.coerce(given)
    return None if coerced is None else function.result_type(coerced)
