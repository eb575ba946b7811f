"""What every function takes, what its arguments are cast to, and what it gives, over types of every kind; `!` is NOT NULL, and
what is cast to nothing else is left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlstream import types as sql
from sqlstream.functions import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, AggregateFunction, ScalarFunction
from sqlstream.types import LogicalType

GOLDEN = Path(__file__).parent / "signatures.out"
Types = tuple[LogicalType, ...]
TYPES = tuple(
    t.not_null()
    for t in (
        *(sql.NULL, sql.BOOLEAN, sql.TINYINT, sql.INT, sql.BIGINT, sql.decimal(10, 2), sql.decimal(38, 20)),
        *(sql.FLOAT, sql.DOUBLE, sql.char(3), sql.varchar(5), sql.STRING, sql.binary(2), sql.BYTES, sql.DATE),
        *(
            sql.time(3),
            sql.timestamp(3),
            sql.as_rowtime(sql.timestamp(3)),
            sql.timestamp(9),
            sql.timestamp_ltz(3),
        ),
        *(
            sql.INTERVAL_DAY_TIME,
            sql.INTERVAL_YEAR_MONTH,
            sql.SYMBOL,
            sql.array(sql.INT),
            sql.multiset(sql.INT),
        ),
        *(sql.map_of(sql.STRING, sql.INT), sql.row(("a", sql.INT), ("b", sql.STRING))),
    )
)
LIKELY = (
    sql.STRING,
    sql.INT,
    sql.timestamp(3),
    sql.SYMBOL,
    sql.BOOLEAN,
    sql.array(sql.INT),
    sql.BYTES,
    sql.row(("a", sql.INT)),
)
IN_PAIRS = ("=", "+", "-", "*", "/", "%", "||", "COALESCE", "STARTSWITH")
"""Functions whose arguments decide together."""

MORE_ARGUMENTS_MAX = 2
"""How many arguments more than it needs a function gets."""


def taken(function: ScalarFunction, given: Types) -> tuple[Types, LogicalType] | None:
    coerced = function.coerce(given)
    result = None if coerced is None else function.result_type(coerced)
    return None if coerced is None or result is None else (coerced, result)


def shown(t: LogicalType | None) -> str:
    return str(t).replace(" NOT NULL", "!")


def called(given: Types, answer: tuple[Types, LogicalType]) -> str:
    coerced, result = answer
    return f"({', '.join('=' if a == b else shown(b) for a, b in zip(given, coerced, strict=True))}) {shown(result)}"


def base_of(function: ScalarFunction, count: int) -> Types | None:
    """Arguments that the function takes."""
    likely = [t.not_null() for t in LIKELY]
    return next((g for g in itertools.product(likely, repeat=count) if taken(function, g)), None)


def varied(function: ScalarFunction, base: Types) -> Iterator[str]:
    """One argument after the other in every type, and nullable."""
    for i in range(len(base)):
        found: dict[str, list[str]] = {}
        for t in TYPES:
            given = (*base[:i], t, *base[i + 1 :])
            if answer := taken(function, given):
                found.setdefault(called(given, answer), []).append(shown(t))
        yield from (f"  {i + 1}: {' | '.join(names)} -> {result}" for result, names in found.items())
        nullable = taken(function, (*base[:i], base[i].with_nullable(True), *base[i + 1 :]))
        yield f"  {i + 1} nullable -> {nullable and shown(nullable[1])}"


def in_pairs(function: ScalarFunction) -> Iterator[str]:
    for left in TYPES:
        found: dict[str, list[str]] = {}
        for right in TYPES:
            if answer := taken(function, (left, right)):
                found.setdefault(called((left, right), answer), []).append(shown(right))
        yield f"  {shown(left)}:" + "".join(
            f" {', '.join(names)} -> {result};" for result, names in found.items()
        )


def scalar(function: ScalarFunction) -> Iterator[str]:
    words = [
        "pure" if function.is_deterministic else "not deterministic",
        *["tries text"] * function.tries_text,
    ]
    yield f"{function.name} [{function.args_min}..{function.args_max}, {', '.join(words)}]"
    if function.name in IN_PAIRS:
        yield from in_pairs(function)
    for count in range(function.args_min, min(function.args_max, function.args_min + MORE_ARGUMENTS_MAX) + 1):
        base = base_of(function, count)
        yield f" {count}: none" if base is None else f" {count}: ({', '.join(map(shown, base))})"
        if base is not None and (count != 2 or function.name not in IN_PAIRS):
            yield from varied(function, base)


def aggregate(function: AggregateFunction) -> Iterator[str]:
    yield f"{function.name} [{function.args_min}..{function.args_max}]"
    for t in TYPES:
        given = (t, *(sql.DOUBLE.not_null(),) * (function.args_min - 1))
        coerced = function.coerce(given)
        result = None if coerced is None else function.result_type(coerced)
        if coerced is not None and result is not None:
            sent = function.accumulator and function.accumulator(coerced)
            yield f"  {shown(t)} -> {called(given, (coerced, result))} by ({', '.join(map(shown, sent or ())) or 'no partial'})"


def test_functions_have_the_signatures_in_their_golden_file(golden: Callable[[Path, str], None]) -> None:
    lines = [line for function in SCALAR_FUNCTIONS.values() for line in scalar(function)]
    lines += [line for function in AGGREGATE_FUNCTIONS.values() for line in aggregate(function)]
    golden(GOLDEN, "\n".join(lines))
