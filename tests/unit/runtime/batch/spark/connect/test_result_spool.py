"""Rows between a server that sends fast and a client that reads slowly."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.errors import ExternalError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.connect import statement
from sqlstream.runtime.batch.spark.connect.statement import ResultSpool


def batch(number: int, rows: int = 1000) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number] * rows)], ["n"])


def given(spool: ResultSpool) -> list[int]:
    return [b.column(0)[0].as_py() for b in spool.batches(lambda: True) if b is not None]


@pytest.mark.parametrize("memory_max", [0, 20_000, 1 << 30])
def test_batches_come_in_order_from_memory_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_max: int
) -> None:
    monkeypatch.setattr(statement, "IN_MEMORY_BYTES_MAX", memory_max)
    spool = ResultSpool(str(tmp_path))
    for number in range(10):
        spool.add(batch(number))
    assert given(spool) == list(range(10))
    for number in range(3):
        spool.add(batch(number))
    assert given(spool) == [0, 1, 2]
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_file_makes_the_sender_wait_and_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement, "IN_MEMORY_BYTES_MAX", 0)
    monkeypatch.setattr(statement, "IN_FILE_BYTES_MAX", 20_000)
    spool = ResultSpool(str(tmp_path))
    added: list[int] = []

    def send() -> None:
        for number in range(20):
            spool.add(batch(number))
            added.append(number)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    time.sleep(0.2)
    assert len(added) < 5
    found = [b for b in spool.batches(lambda: not thread.is_alive()) if b is not None]
    assert [b.column(0)[0].as_py() for b in found] == list(range(20))
    spool.close()


def test_nothing_comes_while_there_is_nothing(tmp_path: Path) -> None:
    spool = ResultSpool(str(tmp_path))
    answers = iter([False, False, True])
    assert list(spool.batches(lambda: next(answers))) == [None, None]
    spool.close()


def test_what_the_sender_has_raised_is_raised(tmp_path: Path) -> None:
    spool = ResultSpool(str(tmp_path))

    def fails() -> bool:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        list(spool.batches(fails))
    spool.close()


def test_a_sender_is_told_that_nobody_reads(tmp_path: Path) -> None:
    spool = ResultSpool(str(tmp_path))
    spool.close()
    spool.close()
    with pytest.raises(BatchCancelled):
        spool.add(batch(1))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement, "IN_MEMORY_BYTES_MAX", 0)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    spool = ResultSpool(str(tmp_path))
    with pytest.raises(ExternalError, match="no space left on device") as caught:
        spool.add(batch(1))
    assert caught.value.code == "SS5001"
    spool.close()
