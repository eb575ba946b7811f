"""What the decorators of Python functions refuse, before anything is created."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from sqlstream import AggregateFunction, udaf, udf, udtf
from sqlstream.python_functions import DeclarationError


def rows(n: int) -> Iterator[int]:
    yield n


async def rows_later(n: int) -> AsyncIterator[int]:
    yield n


async def later(n: int) -> int:
    return n


def untyped(n):  # type: ignore[no-untyped-def]
    return n


class Unfinished(AggregateFunction[int, int]):
    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, n: int) -> int:
        return accumulator + n


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: udf(rows), "a generator makes rows"),
        (lambda: udf(rows_later), "a generator makes rows"),
        (lambda: udf(untyped), "the result has no type"),
        (lambda: udf(later, func_type="arrow", result_type="INT"), "an arrow function cannot be async"),
        (lambda: udf(untyped, func_type="pandas", result_type="INT"), "a pandas function takes arrays"),
        (lambda: udf(untyped, func_type="fast", result_type="INT"), 'not "fast": choose one'),
        (lambda: udtf(later), "a table function cannot be async"),
        (lambda: udtf(rows_later), "a table function cannot be async"),
        (lambda: udtf(untyped), "the rows have no types"),
        (lambda: udaf(untyped), "udaf takes an AggregateFunction"),
        (lambda: udaf(Unfinished), "Unfinished has no get_value"),
    ],
)
def test_a_wrong_declaration_says_why(declare: Callable[[], Any], reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason):
        declare()
