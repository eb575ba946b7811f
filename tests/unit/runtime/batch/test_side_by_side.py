"""Readers side by side give each row once, wait for who reads them, and end together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from sqlstream.runtime.batch import side_by_side
from sqlstream.runtime.batch.side_by_side import BATCH_BYTES, _Unread, read_side_by_side


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([number], pa.int64())})


def reading(*numbers: int) -> Callable[[Callable[[], bool]], Iterator[pa.RecordBatch]]:
    return lambda is_stopped: iter([batch(number) for number in numbers])


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for each in batches for number in each.column(0).to_pylist()]


def readers_alive() -> int:
    return sum(thread.name.startswith("table reader") for thread in threading.enumerate())


def test_each_batch_comes_once_and_those_of_a_reader_in_order() -> None:
    found = numbers(read_side_by_side([reading(1, 3, 5), reading(), reading(2, 4)]))
    assert sorted(found) == [1, 2, 3, 4, 5]
    assert [n for n in found if n % 2] == [1, 3, 5]


def test_a_failure_is_raised_and_ends_the_other_readers() -> None:
    def failing(is_stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise OSError("broken")

    def endless(is_stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        while not is_stopped():
            time.sleep(0.01)
            yield batch(2)

    with pytest.raises(OSError, match="broken"):
        numbers(read_side_by_side([failing, endless]))
    assert readers_alive() == 0


def test_readers_wait_while_nobody_takes_their_batches_and_end_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(side_by_side, "BYTES_AHEAD_MAX", 10 * (BATCH_BYTES + 8))
    made: list[int] = []
    stores: list[_Unread] = []
    monkeypatch.setattr(side_by_side, "_Unread", lambda: stores.append(_Unread()) or stores[-1])

    def counted(is_stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            made.append(number)
            yield batch(number)

    batches = read_side_by_side([counted, counted])
    next(batches)
    deadline_s = time.monotonic() + 60
    while len(stores[0]._changed._waiters) < 2:  # type: ignore[attr-defined]
        assert time.monotonic() < deadline_s, "a reader does not wait"
        time.sleep(0.001)
    # One is taken, ten are held, and each reader waits with one more.
    assert len(made) == 13
    batches.close()  # type: ignore[attr-defined]
    assert readers_alive() == 0
