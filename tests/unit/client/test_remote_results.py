"""The rows of a remote job, read on a thread ahead of their reader."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from client.remote_cluster import BATCHES_AHEAD_MAX, _RemoteResults

BATCH = pa.record_batch({"n": [1, 2]})


def test_a_reader_that_waits_goes_on_when_another_thread_closes_the_rows() -> None:
    never = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        yield BATCH
        never.wait(20)

    results = _RemoteResults(rows)
    read: list[pa.RecordBatch] = []
    reader = threading.Thread(target=lambda: read.extend(results), daemon=True)
    reader.start()
    while not read:
        reader.join(0.01)
    results.close()
    reader.join(5)
    assert not reader.is_alive()
    assert read == [BATCH]
    never.set()


def test_rows_are_read_ahead_as_far_as_the_bound_and_none_is_lost() -> None:
    taken = [0]

    def rows() -> Iterator[pa.RecordBatch]:
        for _ in range(50):
            taken[0] += 1
            yield BATCH

    results = _RemoteResults(rows)
    ready = threading.Event()
    results.when_ready(ready.set)
    assert ready.wait(5)
    assert taken[0] <= BATCHES_AHEAD_MAX + 2
    assert len(list(results)) == 50
    assert results.is_ended
