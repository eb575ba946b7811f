"""A result is held until its job has finished, in memory or in a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.client.held_rows import HeldRows
from sqlstream.errors import ExternalError

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def batch(first: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": [first, first + 1], "s": ["x", None]}, schema=SCHEMA)


@pytest.mark.parametrize(("bytes_max", "is_in_file"), [(1 << 20, False), (100, True), (0, True)])
def test_rows_come_back_in_their_order_and_as_often_as_asked(bytes_max: int, is_in_file: bool) -> None:
    with HeldRows(SCHEMA, bytes_max) as held:
        for first in range(0, 20, 2):
            held.add(batch(first))
            assert [row["n"] for b in held for row in b.to_pylist()] == list(range(first + 2))
        assert held.is_in_file is is_in_file
        assert [b.schema for b in held] == [SCHEMA] * 10


def test_as_many_bytes_as_may_be_held_stay_in_memory() -> None:
    with HeldRows(SCHEMA, 2 * batch(0).nbytes) as held:
        held.add(batch(0))
        held.add(batch(2))
        assert not held.is_in_file
        held.add(batch(4))
        assert held.is_in_file


def test_rows_that_were_read_outlive_the_file() -> None:
    with HeldRows(SCHEMA, 0) as held:
        held.add(batch(0))
        batches = list(held)
    assert batches[0].to_pylist() == batch(0).to_pylist()


def test_the_temporary_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with HeldRows(SCHEMA, 0) as held:
        held.add(batch(0))
        assert os.listdir(tmp_path) == []


def test_no_room_for_the_file_is_an_error_that_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    with (
        HeldRows(SCHEMA, 0) as held,
        pytest.raises(ExternalError, match=r"/no/such/directory.*no such file") as raised,
    ):
        held.add(batch(0))
    assert "TMPDIR" in raised.value.hint
