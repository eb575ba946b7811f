"""Result rows on their way to the client."""

import threading

import pyarrow as pa
import pytest

from runtime.net.channels import ChannelClosed
from runtime.net.results import DirectClientStream, ResultStore

BATCH = pa.record_batch({"a": pa.array(range(100), pa.int64())})


def make_store(capacity_bytes=10_000):
    store = ResultStore(capacity_bytes, lambda job_id, lines, is_error: None)
    store.open("job")
    return store


def test_rows_that_came_before_the_end_are_still_given_out():
    store = make_store()
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    stream.put_rows(BATCH)
    store.close("job")
    assert sum(b.num_rows for b in store.rows("job")) == 200
    with pytest.raises(ChannelClosed):
        stream.put_rows(BATCH)


def test_a_sink_waits_for_a_client_that_is_behind():
    store = make_store(capacity_bytes=BATCH.nbytes)
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    writer = threading.Thread(target=stream.put_rows, args=(BATCH,))
    writer.start()
    rows = store.rows("job")
    assert next(rows).num_rows == 100
    writer.join(5)
    assert not writer.is_alive()
    assert next(rows).num_rows == 100


def test_a_cancelled_sink_does_not_wait_for_its_client():
    store = make_store(capacity_bytes=1)
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    stream.abort()
    with pytest.raises(ChannelClosed):
        stream.put_rows(BATCH)


def test_rows_of_an_unknown_job_are_refused():
    with pytest.raises(ChannelClosed):
        DirectClientStream(make_store(), "other", 1).put_rows(BATCH)


def test_a_job_that_ends_without_rows_to_fetch_is_forgotten():
    store = make_store()
    store.close("job")
    assert list(store.rows("job")) == []
    with pytest.raises(ChannelClosed):
        DirectClientStream(store, "job", 1).put_rows(BATCH)
    assert store.jobs == ()


def test_lines_that_cannot_be_printed_stop_their_sink_and_are_reported():
    def print_lines(job_id, lines, is_error):
        raise BrokenPipeError("nobody reads")

    told = []
    store = ResultStore(1, print_lines, lambda job_id, error: told.append((job_id, str(error))))
    store.open("job")
    with pytest.raises(ChannelClosed):
        DirectClientStream(store, "job", 1).put_lines(["a"], False)
    assert told == [("job", "nobody reads")]
