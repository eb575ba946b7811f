"""Functions whose parameters are columns are made once for each distinct set of parameters."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.kernel import Kernel


def joined(made: list[tuple[Any, ...]]) -> Kernel:
    def make(*parameters: Any) -> Kernel:
        made.append(parameters)
        return lambda values: pa.array([f"{v} {parameters}" for v in values.to_pylist()], pa.large_string())

    return by_parameter(make, pa.string())


def test_each_row_is_computed_with_its_own_parameters() -> None:
    rows = list(itertools.product(("x", "y", None), (1, 2, 3), ("a", None, "b", "c")))
    rows = [rows[n * 7 % len(rows)] for n in range(len(rows))] * 2
    made: list[tuple[Any, ...]] = []
    columns = [pa.array([row[i] for row in rows]) for i in range(3)]
    result = joined(made)(*columns)
    assert result.type == pa.string()
    assert result.to_pylist() == [None if None in row[1:] else f"{row[0]} {row[1:]}" for row in rows]
    assert sorted(made) == sorted({row[1:] for row in rows if None not in row[1:]})


def test_constants_are_one_set_and_no_rows_are_none() -> None:
    made: list[tuple[Any, ...]] = []
    kernel = joined(made)
    assert kernel(pa.array(["x", "y"]), pa.scalar(1), pa.scalar("a")).to_pylist() == [
        "x (1, 'a')",
        "y (1, 'a')",
    ]
    assert made == [(1, "a")]
    none = pa.array([], pa.string())
    assert kernel(none, pa.array([], pa.int64()), none) == pa.array([], pa.string())
    assert kernel(pa.array(["x"]), pa.scalar(None, pa.int64()), pa.scalar("a")).to_pylist() == [None]
    assert made == [(1, "a")]
