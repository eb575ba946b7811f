"""One expression of DuckDB over a batch."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.duckdb_function import duckdb_connection, evaluate_in_duckdb


def test_columns_and_constants_are_named_by_their_place() -> None:
    result = evaluate_in_duckdb("a0 || a1", pa.array(["x", None, "y"]), pa.scalar("!"))
    assert result.to_pylist() == ["x!", None, "y!"]
    assert evaluate_in_duckdb("a0 || 'x'", pa.array([], pa.string())) == pa.nulls(0)


def test_a_failure_is_one_line_and_the_next_call_works() -> None:
    with pytest.raises(UserError) as caught:
        evaluate_in_duckdb("error(a0)", pa.array(["first\nsecond"]))
    assert caught.value.code == "SS5105"
    assert caught.value.message == "evaluating a function failed: Invalid Input Error: first"
    assert evaluate_in_duckdb("a0 + 1", pa.array([1], pa.int32())).to_pylist() == [2]


def test_each_thread_has_one_connection_with_one_thread() -> None:
    own = duckdb_connection()
    assert duckdb_connection() is own
    assert own.sql("SELECT current_setting('threads')").fetchall() == [(1,)]
    others: list[object] = []
    thread = threading.Thread(target=lambda: others.append(duckdb_connection()))
    thread.start()
    thread.join(60)
    assert others
    assert others[0] is not own
