"""Functions of a user, as the tests of CREATE FUNCTION ship them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import AggregateFunction, udaf, udf, udtf

WAITING = {"now": 0, "most": 0}
CALLS: dict[str, int] = {}


@udf
def add_one(n: int) -> int:
    """Adds one.

    And nothing else.
    """
    return n + 1


@udf(result_type="STRING", input_types=["STRING", "INT"])
def repeated(s, n=2):
    return "-" if s is None else s * n


@udf(result_type="STRING")
def kinds(*values):
    return " ".join(type(v).__name__ for v in values)


@udf(result_type="BIGINT", func_type="arrow")
def twice(n):
    import pyarrow.compute as pc

    return pc.multiply(n, 2)


@udf(result_type="BIGINT", func_type="arrow")
def too_few(n):
    return n.slice(1)


@udf(result_type="DOUBLE", deterministic=False)
def draw():
    return random.random()


@udf
async def fetched(n: int) -> str:
    WAITING["now"] += 1
    WAITING["most"] = max(WAITING["most"], WAITING["now"])
    # Later rows answer first.
    await asyncio.sleep((10 - n % 10) / 1000)
    WAITING["now"] -= 1
    return f"v{n}"


@udf
async def second_time(n: int) -> int:
    CALLS[f"{n}"] = CALLS.get(f"{n}", 0) + 1
    if CALLS[f"{n}"] < 2:
        raise OSError("not yet")
    return n


@udf
async def never(n: int) -> int:
    await asyncio.Event().wait()
    return n


@udf
def interrupting(n: int) -> int:
    raise KeyboardInterrupt


@udf
async def cancelling(n: int) -> int:
    raise asyncio.CancelledError


def _inner(n: int) -> int:
    return 10 // (n - 3)


@udf
def failing(n: int) -> int:
    return _inner(n)


@udf(result_type="INT")
def mistyped(n):
    return 1.5 if n == 2 else n


@udf(result_type="VARCHAR(3)")
def too_long(n):
    return "ab" if n == 1 else "äbcd"


@udf(result_type="VARBINARY(3)", func_type="arrow")
def too_long_batch(n):
    return pa.array([b"abcd"] * len(n))


@udf(result_type="BIGNUM")
def no_type(n):
    return n


@udtf
def words(text: str) -> Iterator[tuple[str, int]]:
    for word in text.split():
        yield word, len(word)


@udtf(result_types="INT")
def up_to(n):
    return range(n)


@udf
def total(values: list[int]) -> int:
    return sum(values)


@udtf
def endless(n: int) -> Iterator[int]:
    while True:
        yield n


def undecorated(n: int) -> int:
    return n


@udaf(accumulator_type="ROW<total BIGINT, n BIGINT>", result_type="DOUBLE")
class Mean(AggregateFunction):
    """The mean of whole numbers, weighted."""

    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def accumulate(self, acc: tuple[int, int], v: int, w: int) -> tuple[int, int]:
        return (acc[0] + v * w, acc[1] + w)

    def retract(self, acc: tuple[int, int], v: int, w: int) -> tuple[int, int]:
        return (acc[0] - v * w, acc[1] - w)

    def merge(self, acc: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return (acc[0] + other[0], acc[1] + other[1])

    def get_value(self, acc: tuple[int, int]) -> float | None:
        return acc[0] / acc[1] if acc[1] else None


@udaf
class Seen(AggregateFunction):
    """Distinct values in order of arrival; a list that is modified, without retract and merge."""

    result_type = "STRING"
    accumulator_type = "ARRAY<BIGINT>"

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, acc: list[int], v: Any) -> list[int]:
        if v is not None and v not in acc:
            acc.append(v)
        return acc

    def get_value(self, acc: list[int]) -> str:
        return ",".join(map(str, sorted(acc)))


@udaf(accumulator_type="ARRAY<BIGINT>", result_type="BIGINT")
class InPlace(AggregateFunction):
    """A sum, whose methods change the accumulator and return nothing."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, acc: list[int], v: int) -> None:
        acc[0] += v

    def retract(self, acc: list[int], v: int) -> None:
        acc[0] -= v

    def merge(self, acc: list[int], other: list[int]) -> None:
        acc[0] += other[0]

    def get_value(self, acc: list[int]) -> int:
        return acc[0]


@udtf(func_type="arrow", result_types="ROW<word STRING, size BIGINT>")
def words_by_batch(text):
    """`words`, for a whole batch."""
    lists = pc.split_pattern(pc.fill_null(text, ""), " ")
    found, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    is_word = pc.not_equal(found, "")
    found, rows = found.filter(is_word), rows.filter(is_word)
    return pa.record_batch({"size": pc.utf8_length(found), "word": found, "$row": rows})


@udtf(func_type="arrow", result_types="ROW<n BIGINT NOT NULL, half DOUBLE>")
def halves(n, divisor=2):
    return {"n": pc.fill_null(n, 0), "half": pc.divide(n.cast(pa.float64()), 2.0)}


@udtf(func_type="arrow", result_types="ROW<n BIGINT NOT NULL>")
def badly_made(kind):
    rows = len(kind)
    numbers = list(range(rows))
    return {
        0: lambda: 7,
        1: lambda: {"m": numbers},
        2: lambda: {"n": pa.array(numbers[:-1])},
        3: lambda: {"n": pa.array(numbers), "$row": pa.array(numbers[::-1])},
        4: lambda: {"n": pa.array(numbers), "$row": pa.array([n + 1 for n in numbers])},
        5: lambda: {"n": pa.array(numbers), "$row": pa.array([None] * rows, pa.int64())},
        6: lambda: {"n": pa.array(numbers), "$row": pa.array([str(n) for n in numbers])},
        7: lambda: {"n": pa.nulls(rows, pa.int64())},
        8: lambda: {"n": pa.array(["x"] * rows)},
        9: lambda: {"n": [1] * rows},
    }[kind[0].as_py()]()
