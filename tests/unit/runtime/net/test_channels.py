"""The bounded queue between two tasks."""

import threading
import time

import pyarrow as pa
import pytest

from runtime.net import channels
from runtime.net.channels import Channel, ChannelClosed
from runtime.net.partition_table import PartitionTable, SubpartitionId
from sqlstream.elements import Watermark

BATCH = pa.record_batch({"a": [1]})


def test_items_come_out_in_the_order_they_went_in():
    channel = Channel(1000)
    channel.put(BATCH, 10)
    channel.put(Watermark(1), 10)
    assert channel.take() == (BATCH, True)
    assert channel.take() == (Watermark(1), False)
    assert channel.take() == (None, False)


def test_a_full_channel_takes_no_more_until_something_is_read():
    channel = Channel(10)
    assert channel.put_if_room(BATCH, 100)
    assert not channel.put_if_room(BATCH, 1)
    writer = threading.Thread(target=channel.put, args=(BATCH, 1), daemon=True)
    writer.start()
    channel.take()
    writer.join(5)
    assert not writer.is_alive()
    assert channel.queued_bytes == 1


def test_closing_wakes_a_writer_that_waits_for_room():
    channel = Channel(1)
    channel.put(BATCH, 1)
    outcome = []

    def write():
        try:
            channel.put(BATCH, 1)
        except ChannelClosed:
            outcome.append("closed")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    channel.close()
    writer.join(5)
    assert outcome == ["closed"]
    with pytest.raises(ChannelClosed):
        channel.put(BATCH, 1)


def test_a_listener_hears_of_each_turn_from_empty_to_readable():
    channel, calls = Channel(1000), []
    channel.put(BATCH, 1)
    channel.listen(lambda: calls.append("readable"))
    channel.put(BATCH, 1)
    assert len(calls) == 1
    channel.take()
    channel.take()
    channel.put(BATCH, 1)
    assert len(calls) == 2


def test_both_ends_meet_in_one_channel_whoever_comes_first():
    table, subpartition = PartitionTable(), SubpartitionId("job", "p", 0)
    first = table.meet(subpartition, 10)
    assert table.meet(subpartition, 10) is first
    first.wait_connected()
    assert len(table) == 0


def test_channels_that_one_end_never_opened_are_closed_with_their_job():
    table = PartitionTable()
    left = table.meet(SubpartitionId("job", "p", 0), 10)
    other = table.meet(SubpartitionId("other", "p", 0), 10)
    table.release_job("job")
    assert (left.is_closed, other.is_closed, len(table)) == (True, False, 1)


def started(call, *args):
    """A thread that waits in a call on the channel, and the list of what it returned."""
    outcome = []

    def run():
        try:
            outcome.append(call(*args))
        except ChannelClosed:
            outcome.append("closed")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    channel = call.__self__
    deadline = time.monotonic() + 5
    while not channel._changed._waiters and time.monotonic() < deadline:
        time.sleep(0.001)
    assert channel._changed._waiters
    return thread, outcome


@pytest.mark.parametrize(
    ("end", "expected"),
    [(lambda c: c.close(), "closed"), (lambda c: c.resize(100), None), (lambda c: c.take(), None),
     (lambda c: c.take_waiting(lambda: True), None)],
    ids=["close", "resize", "take", "take_waiting"],
)  # fmt: skip
def test_a_writer_that_waits_for_room_is_woken_by(end, expected):
    channel = Channel(10)
    channel.put(BATCH, 10)
    thread, outcome = started(channel.put, BATCH, 10)
    end(channel)
    thread.join(5)
    assert outcome == [expected]


@pytest.mark.parametrize(
    ("end", "expected"),
    [(lambda c: c.close(), "closed"), (lambda c: c.put(BATCH, 1), (BATCH, 1, 0)),
     (lambda c: c.put_if_room(BATCH, 1), (BATCH, 1, 0))],
    ids=["close", "put", "put_if_room"],
)  # fmt: skip
def test_a_reader_that_waits_for_items_is_woken_by(end, expected, monkeypatch):
    # So that only a wake-up ends the wait.
    monkeypatch.setattr(channels, "ABANDONED_CHECK_S", 60)
    channel = Channel(10)
    thread, outcome = started(channel.take_waiting, lambda: False)
    end(channel)
    thread.join(5)
    assert outcome == [expected]


def test_a_reader_that_nobody_waits_for_ends_by_itself(monkeypatch):
    monkeypatch.setattr(channels, "ABANDONED_CHECK_S", 0.01)
    channel = Channel(10)
    with pytest.raises(ChannelClosed):
        channel.take_waiting(lambda: True)


@pytest.mark.parametrize(
    ("end", "expected"),
    [(lambda c: c.connect(), None), (lambda c: c.close(), "closed")],
    ids=["connect", "close"],
)
def test_who_waits_for_the_other_end_is_woken_by(end, expected):
    channel = Channel(10)
    thread, outcome = started(channel.wait_connected)
    end(channel)
    thread.join(5)
    assert outcome == [expected]


def test_a_channel_that_was_connected_before_it_closed_was_read():
    channel = Channel(10)
    channel.connect()
    channel.close()
    channel.wait_connected()
