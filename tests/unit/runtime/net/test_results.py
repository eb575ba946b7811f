"""Result rows on their way to the client."""

import threading
import time

import pyarrow as pa
import pytest

from sqlstream.runtime.net import results
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.results import DirectClientStream, ResultStore

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
    assert sum(b.num_rows for b in store.reader("job")) == 200
    with pytest.raises(ChannelClosed):
        stream.put_rows(BATCH)


def test_a_sink_waits_for_a_client_that_is_behind():
    store = make_store(capacity_bytes=BATCH.nbytes)
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    writer = threading.Thread(target=stream.put_rows, args=(BATCH,), daemon=True)
    writer.start()
    rows = iter(store.reader("job"))
    assert next(rows).num_rows == 100
    writer.join(60)
    assert not writer.is_alive()
    assert next(rows).num_rows == 100


def test_a_cancelled_sink_does_not_wait_for_its_client():
    store = make_store(capacity_bytes=1)
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    stream.abort()
    with pytest.raises(ChannelClosed):
        stream.put_rows(BATCH)


def sink_that_waits(store, stream, outcome) -> threading.Thread:
    """The thread of a sink that waits for room, and says when its channel is closed."""

    def write():
        try:
            stream.put_rows(BATCH)
        except ChannelClosed:
            outcome.append("closed")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    wait_until_it_waits(store)
    return writer


def test_a_cancelled_sink_does_not_wait_for_its_client_while_rows_of_another_job_come(monkeypatch):
    # So that no wait reaches its end.
    monkeypatch.setattr(results, "ABANDONED_CHECK_S", 60)
    store, outcome = make_store(capacity_bytes=1), []
    store.open("other")
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)

    writer = sink_that_waits(store, stream, outcome)
    stream.abort()
    DirectClientStream(store, "other", 1).put_rows(BATCH)
    writer.join(60)
    assert outcome == ["closed"]


def test_rows_of_an_unknown_job_are_refused():
    with pytest.raises(ChannelClosed):
        DirectClientStream(make_store(), "other", 1).put_rows(BATCH)


def test_a_job_that_ends_without_rows_to_fetch_is_forgotten():
    store = make_store()
    store.close("job")
    assert list(store.reader("job")) == []
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


def ends_reading(store, end):
    """Whether a client that waits for rows returns without any when `end` is called."""
    read = []
    reader = threading.Thread(target=lambda: read.append(list(store.reader("job"))), daemon=True)
    reader.start()
    wait_until_it_waits(store)
    end()
    reader.join(60)
    return read == [[]]


def wait_until_it_waits(store):
    """Until another thread waits for the store to change."""
    deadline = time.monotonic() + 60
    while not store._changed._waiters and time.monotonic() < deadline:
        time.sleep(0.001)
    assert store._changed._waiters


def test_whatever_ends_the_rows_of_a_job_wakes_the_client_that_waits_for_them():
    store = make_store()
    assert ends_reading(store, store.close_all)
    store = make_store()
    assert ends_reading(store, lambda: store.close("job"))
    store = make_store()
    assert ends_reading(store, lambda: store.forget("job"))


def test_rows_wake_the_client_that_waits_for_them():
    store = make_store()
    rows, read = iter(store.reader("job")), []
    reader = threading.Thread(target=lambda: read.append(next(rows)), daemon=True)
    reader.start()
    wait_until_it_waits(store)
    DirectClientStream(store, "job", 1).put_rows(BATCH)
    reader.join(60)
    assert read == [BATCH]


@pytest.mark.parametrize("end", ["close_all", "close", "forget"])
def test_whatever_ends_the_rows_of_a_job_wakes_the_sink_that_waits_for_room(end, monkeypatch):
    # So that only a wake-up ends the wait.
    monkeypatch.setattr(results, "ABANDONED_CHECK_S", 60)
    store = make_store(capacity_bytes=1)
    stream, outcome = DirectClientStream(store, "job", 1), []
    stream.put_rows(BATCH)

    writer = sink_that_waits(store, stream, outcome)
    store.close_all() if end == "close_all" else getattr(store, end)("job")
    writer.join(60)
    assert outcome == ["closed"]


def test_a_client_that_reads_wakes_the_sink_that_waits_for_room(monkeypatch):
    monkeypatch.setattr(results, "ABANDONED_CHECK_S", 60)
    store = make_store(capacity_bytes=1)
    stream = DirectClientStream(store, "job", 1)
    stream.put_rows(BATCH)
    writer = threading.Thread(target=stream.put_rows, args=(BATCH,), daemon=True)
    writer.start()
    wait_until_it_waits(store)
    rows = iter(store.reader("job"))
    assert next(rows) == BATCH
    writer.join(60)
    assert not writer.is_alive()
    store.close_all()
    assert list(rows) == [BATCH]


def test_a_reader_without_a_thread_is_called_when_there_is_a_batch_and_at_the_end() -> None:
    store = make_store()
    store.open("job")
    rows, calls = store.reader("job"), []
    rows.when_ready(lambda: calls.append("first"))
    assert calls == []
    assert rows.poll() is None
    assert not rows.is_ended
    DirectClientStream(store, "job", 1).put_rows(BATCH)
    assert calls == ["first"]
    rows.when_ready(lambda: calls.append("at once"))
    assert calls == ["first", "at once"]
    assert rows.poll() is BATCH
    rows.when_ready(lambda: calls.append("end"))
    store.close("job")
    assert calls == ["first", "at once", "end"]
    assert rows.is_ended
    assert rows.poll() is None


def test_rows_that_came_before_the_end_of_the_job_are_polled_before_the_reader_has_ended() -> None:
    store = make_store()
    store.open("job")
    DirectClientStream(store, "job", 1).put_rows(BATCH)
    store.close("job")
    rows = store.reader("job")
    assert not rows.is_ended
    assert rows.poll() is BATCH
    assert rows.is_ended
    assert store.jobs == ()


def test_a_reader_that_goes_away_ends_the_stream_of_its_writer() -> None:
    store = make_store()
    store.open("job")
    store.reader("job").close()
    with pytest.raises(ChannelClosed):
        DirectClientStream(store, "job", 1).put_rows(BATCH)


def test_a_job_that_is_open_already_is_not_opened_anew() -> None:
    store = make_store()
    assert store.open("other")
    DirectClientStream(store, "other", 1).put_rows(BATCH)
    assert not store.open("other")
    assert store.reader("other").poll() is BATCH
