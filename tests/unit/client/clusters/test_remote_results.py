"""The rows of a remote job, read on a thread ahead of their reader; and its end, when the JobManager is another one meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pyarrow as pa
import pytest

from sqlstream.client.clusters.remote_cluster import (
    BYTES_AHEAD_MAX,
    Link,
    RemoteClusterClient,
    RemoteResults,
)
from sqlstream.errors import InternalError
from sqlstream.messages import client_rpc
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply, encode_message

BATCH = pa.record_batch({"n": [1, 2]})


def test_a_reader_that_waits_goes_on_when_another_thread_closes_the_rows() -> None:
    never = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        yield BATCH
        never.wait(60)

    results = RemoteResults(rows)
    read: list[pa.RecordBatch] = []
    reader = threading.Thread(target=lambda: read.extend(results), daemon=True)
    reader.start()
    while not read:
        reader.join(0.01)
    results.close()
    reader.join(60)
    assert not reader.is_alive()
    assert read == [BATCH]
    never.set()


def test_rows_are_read_ahead_as_far_as_the_bound_in_bytes_and_none_is_lost() -> None:
    mebibyte = pa.record_batch({"n": pa.array(range(2**17), pa.int64())})
    assert mebibyte.nbytes == 2**20
    asked = []

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            asked.append(number)
            yield mebibyte

    results = RemoteResults(rows)
    results.when_ready(lambda: None)
    deadline_s = time.monotonic() + 60
    while not results._store._changed._waiters:  # type: ignore[attr-defined]
        assert time.monotonic() < deadline_s, "the thread does not wait for its reader"
        time.sleep(0.001)
    assert results.unread_bytes == BYTES_AHEAD_MAX
    assert len(asked) == 5
    assert sum(batch.num_rows for batch in results) == 20 * mebibyte.num_rows
    assert results.is_ended


def test_whoever_waits_for_rows_is_called_when_they_are_there() -> None:
    may_answer, is_ready = threading.Event(), threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        may_answer.wait(60)
        yield BATCH

    results = RemoteResults(rows)
    results.when_ready(is_ready.set)
    assert not is_ready.is_set()
    assert results.poll() is None
    may_answer.set()
    assert is_ready.wait(60)
    assert results.poll() == BATCH


def test_small_batches_are_read_ahead_although_they_are_many() -> None:
    has_read_all = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        yield from [BATCH] * 1000
        has_read_all.set()

    results = RemoteResults(rows)
    results.when_ready(lambda: None)
    assert has_read_all.wait(60)
    assert list(results) == [BATCH] * 1000


def test_a_broken_connection_ends_the_rows() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise pa.ArrowException("the connection is broken")

    assert list(RemoteResults(rows)) == [BATCH]


def test_any_other_failure_is_raised_behind_the_rows_before_it() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise ValueError("unexpected")

    results = RemoteResults(rows)
    batches = iter(results)
    assert next(batches) == BATCH
    with pytest.raises(InternalError, match="the rows of the job cannot be read: unexpected"):
        next(batches)
    assert results.is_ended
    with pytest.raises(InternalError):
        results.poll()


def test_a_reader_that_leaves_ends_the_reading() -> None:
    is_ended = threading.Event()

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield BATCH
        finally:
            is_ended.set()

    results = RemoteResults(rows)
    next(iter(results))
    results.close()
    assert is_ended.wait(60)
    assert results.poll() is None
    assert results.is_ended


class _JobManager:
    """Takes one client until `ends`, and tells it at once that a job whose end it awaits has finished."""

    def __init__(self) -> None:
        self.ends, self._is_asked = threading.Event(), threading.Event()

    def attach(self, address: str, data: bytes) -> Iterator[bytes]:
        yield encode_message(client_rpc.ClientAttached())
        while not self.ends.wait(0.001):
            if self._is_asked.is_set():
                yield encode_message(client_rpc.JobEnded(JobStatusReply("j", JobStatus.FINISHED)))
        self._is_asked.clear()

    def request(self, address: str, data: bytes, timeout_s: float) -> bytes:
        request = client_rpc.decode_client_request(data)
        if isinstance(request, client_rpc.DetachClient):
            self.ends.set()
            return encode_message(client_rpc.ClientDetached())
        assert isinstance(request, client_rpc.AwaitJobEnd)
        self._is_asked.set()
        return encode_message(JobStatusReply("j", JobStatus.RUNNING))

    def close(self) -> None:
        self.ends.set()


def test_whoever_asks_for_the_end_of_a_job_while_the_next_job_manager_is_looked_for_is_told_it() -> None:
    first, second, is_found = _JobManager(), _JobManager(), threading.Event()
    links = iter([first, second])

    def connect() -> Link:
        found = next(links)
        assert found is first or is_found.wait(60)
        return Link("", cast(Any, found))

    client = RemoteClusterClient("", "", connect_again=connect)
    first.ends.set()
    while client._lost is None:
        time.sleep(0.001)
    with ThreadPoolExecutor(1) as pool:
        waited = pool.submit(client.wait, "j")
        while not client._ends:
            assert not waited.done(), waited.exception()
            time.sleep(0.001)
        is_found.set()
        assert waited.result(60).status is JobStatus.FINISHED
    client.close()
