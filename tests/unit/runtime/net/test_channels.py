"""The bounded queue between two tasks."""

import threading
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.elements import CheckpointBarrier, EndOfInput, Watermark
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId

BATCH = pa.record_batch({"a": [1]})


def taken(channel, with_rows=True):
    """The next item, and whether there are more."""
    queued, has_more = channel.take(with_rows)
    return (None if queued is None else queued.item), has_more


def test_items_come_out_in_the_order_they_went_in():
    channel = Channel(1000)
    channel.put(BATCH, 10)
    channel.put(Watermark(1), 10)
    assert taken(channel) == (BATCH, True)
    assert taken(channel) == (Watermark(1), False)
    assert taken(channel) == (None, False)


def test_a_full_channel_has_room_again_when_half_of_it_was_read():
    channel, calls = Channel(10), []
    channel.when_room(lambda: calls.append(channel.queued_bytes))
    for _ in range(3):
        assert channel.has_room
        channel.put(BATCH, 4)
    assert not channel.has_room
    channel.take()
    assert (channel.has_room, calls) == (False, [])
    channel.take()
    assert (channel.has_room, calls) == (True, [4])
    channel.take()
    assert calls == [4]


def test_what_is_put_without_room_is_queued_and_overdrawn_at_twice_the_bound():
    channel = Channel(10)
    channel.put(BATCH, 19)
    assert (channel.has_room, channel.is_overdrawn) == (False, False)
    channel.put(BATCH, 1)
    assert (channel.queued_bytes, channel.is_overdrawn) == (20, True)
    assert [taken(channel)[0] for _ in range(2)] == [BATCH] * 2
    assert (channel.has_room, channel.is_overdrawn) == (True, False)


def test_closing_gives_room_and_the_next_put_raises():
    channel, calls = Channel(1), []
    channel.when_room(lambda: calls.append("room"))
    channel.put(BATCH, 1)
    channel.close()
    channel.close()
    assert (channel.has_room, calls) == (True, ["room"])
    for put in (channel.put, channel.put_first):
        with pytest.raises(ChannelClosed):
            put(BATCH, 1)


def test_a_larger_bound_gives_room():
    channel, calls = Channel(10), []
    channel.when_room(lambda: calls.append("room"))
    channel.put(BATCH, 10)
    channel.resize(15)
    assert (channel.has_room, calls) == (False, [])
    channel.resize(20)
    assert (channel.has_room, calls) == (True, ["room"])


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


def test_a_consumer_is_called_for_enough_bytes_or_a_flush_and_once_until_all_is_read():
    channel, calls = Channel(1000, wake_bytes=10), []
    channel.listen(lambda: calls.append("readable"), lambda: calls.append("first"))
    channel.flush()
    channel.put(BATCH, 9)
    assert calls == []
    channel.put(BATCH, 1)
    channel.put(BATCH, 50)
    channel.flush()
    assert calls == ["readable"]
    channel.take()
    channel.flush()
    assert calls == ["readable"]
    channel.take()
    channel.take()
    channel.put(BATCH, 1)
    channel.flush()
    channel.flush()
    assert calls == ["readable"] * 2
    channel.take()
    channel.put_first(CheckpointBarrier(1, 0), 1)
    channel.flush()
    assert calls == ["readable", "readable", "first"]


def test_a_full_channel_calls_its_consumer_however_few_bytes_fill_it():
    channel, calls = Channel(5, wake_bytes=10), []
    channel.listen(lambda: calls.append("readable"))
    channel.put(BATCH, 5)
    assert (channel.has_room, calls) == (False, ["readable"])


def test_the_end_of_input_is_told_at_once():
    channel, calls = Channel(1000, wake_bytes=500), []
    channel.listen(lambda: calls.append("readable"))
    channel.put(Watermark(1), 64)
    assert calls == []
    channel.put(EndOfInput(), 64)
    assert calls == ["readable"]


def test_a_reader_that_waits_is_woken_by_a_flush_and_not_by_a_few_bytes():
    channel, calls = Channel(1000, wake_bytes=10), []
    channel.listen(lambda: calls.append("readable"))
    channel.put(BATCH, 1)
    assert calls == []
    channel.flush()
    assert calls == ["readable"]


def test_what_is_put_first_passes_batches_but_not_what_was_put_first_before():
    channel, calls = Channel(1000), []
    channel.listen(lambda: calls.append("readable"), lambda: calls.append("first"))
    channel.put(BATCH, 10)
    channel.put(Watermark(5), 1)
    passed = [[(q.item, q.size) for q in channel.put_first(CheckpointBarrier(n, 0), 1)] for n in (1, 2)]
    assert passed == [[(BATCH, 10), (Watermark(5), 1)]] * 2
    assert calls == ["readable", "first", "first"]
    items = [taken(channel)[0] for _ in range(4)]
    assert items == [CheckpointBarrier(1, 0), CheckpointBarrier(2, 0), BATCH, Watermark(5)]


def test_a_batch_that_waits_for_credit_is_passed_by_what_is_put_first():
    channel = Channel(1000)
    channel.put(Watermark(1), 1)
    channel.put(BATCH, 10)
    assert taken(channel, with_rows=False) == (Watermark(1), True)
    assert taken(channel, with_rows=False) == (None, True)
    channel.put_first(CheckpointBarrier(1, 0), 1)
    assert taken(channel, with_rows=False) == (CheckpointBarrier(1, 0), True)
    assert taken(channel, with_rows=False) == (None, True)
    assert taken(channel) == (BATCH, False)


def test_a_queued_barrier_passes_what_is_before_it_when_it_is_to():
    channel, calls = Channel(1000), []
    channel.listen(lambda: calls.append("readable"), lambda: calls.append("first"))
    for item, size in ((BATCH, 10), (Watermark(5), 1), (CheckpointBarrier(3, 0), 7), (BATCH, 20)):
        channel.put(item, size)
    assert [channel.holds(n) for n in (2, 3)] == [False, True]
    assert channel.overtake(2) == ()
    passed = channel.overtake(3, keeps_passed=True)
    assert [(q.item, q.size) for q in passed] == [(BATCH, 10), (Watermark(5), 1)]
    assert calls == ["readable", "first"]
    assert channel.queued_bytes == 38
    # It has passed them already.
    assert (channel.holds(3), channel.overtake(3)) == (False, ())
    first, _ = channel.take_first()
    assert (first.item, first.size, first.passed) == (CheckpointBarrier(3, 0, is_unaligned=True), 7, passed)
    assert [taken(channel)[0] for _ in range(3)] == [BATCH, Watermark(5), BATCH]
    assert channel.overtake(3) == ()


class Model:
    """A channel as two lists: what was put first, and the others."""

    def __init__(self, capacity_bytes):
        self.capacity_bytes, self.firsts, self.others, self.has_room = capacity_bytes, [], [], True

    def settle(self):
        queued = sum(size for _, size in self.firsts + self.others)
        if queued >= self.capacity_bytes:
            self.has_room = False
        elif 2 * queued <= self.capacity_bytes:
            self.has_room = True
        return queued

    def take(self, with_rows):
        source = self.firsts or self.others
        if not source or (not with_rows and isinstance(source[0][0], pa.RecordBatch)):
            return None
        return source.pop(0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(0, 30)),
        st.tuples(st.just("mark"), st.integers(0, 5)),
        st.tuples(st.just("first"), st.integers(0, 5)),
        st.tuples(st.just("take"), st.booleans()),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(capacity_bytes=st.integers(1, 40), steps=STEPS)
def test_any_puts_and_takes_are_those_of_two_lists(capacity_bytes, steps):
    channel, model = Channel(capacity_bytes), Model(capacity_bytes)
    announced, rooms, was_full = [], [], 0
    channel.listen(lambda: announced.append("readable"), lambda: announced.append("first"))
    channel.when_room(lambda: rooms.append("room"))
    for number, (kind, value) in enumerate(steps):
        announced.clear()
        was_empty, had_room = not model.firsts + model.others, model.has_room
        if kind == "take":
            queued, has_more = channel.take(value)
            expected = model.take(value)
            assert (None if queued is None else (queued.item, queued.size)) == expected
            assert has_more == bool(model.firsts + model.others)
        elif kind == "first":
            barrier = CheckpointBarrier(number, 0, is_unaligned=True)
            assert [(q.item, q.size) for q in channel.put_first(barrier, value)] == model.others
            model.firsts.append((barrier, value))
            assert announced == ["first"]
        else:
            item = BATCH if kind == "rows" else Watermark(number)
            channel.put(item, value)
            model.others.append((item, value))
            assert announced == (["readable"] if was_empty else [])
        assert channel.queued_bytes == model.settle()
        assert channel.has_room == model.has_room
        was_full += model.has_room and not had_room
        assert len(rooms) == was_full
        assert channel.is_overdrawn == (channel.queued_bytes >= 2 * capacity_bytes)


def test_a_producer_that_asks_for_room_and_its_consumer_pass_all_items_within_the_bound():
    channel, sent, most = Channel(1000), 20_000, 0
    may_take, has_room = threading.Semaphore(0), threading.Semaphore(0)
    channel.listen(may_take.release)
    channel.when_room(has_room.release)

    def produce():
        for number in range(sent):
            while not channel.has_room:
                has_room.acquire(timeout=60)
            channel.put(Watermark(number), 7)
        channel.put(EndOfInput(), 7)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    items = []
    while not items or items[-1] != EndOfInput():
        assert may_take.acquire(timeout=60)
        has_more = True
        while has_more:
            most = max(most, channel.queued_bytes)
            item, has_more = taken(channel)
            items += [item] if item is not None else []
    producer.join(60)
    assert items == [*(Watermark(number) for number in range(sent)), EndOfInput()]
    assert most <= 1000 + 2 * 7


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
    deadline = time.monotonic() + 60
    while not channel._changed._waiters and time.monotonic() < deadline:
        time.sleep(0.001)
    assert channel._changed._waiters
    return thread, outcome


@pytest.mark.parametrize(
    "end",
    [lambda c: c.close(), lambda c: c.resize(100), lambda c: c.take()],
    ids=["close", "resize", "take"],
)
def test_a_writer_that_waits_for_room_is_woken_by(end):
    channel = Channel(10)
    channel.put(BATCH, 10)
    thread, outcome = started(channel.wait_for_room)
    end(channel)
    thread.join(60)
    assert (outcome, channel.has_room) == ([None], True)


def test_a_listener_hears_of_the_end_of_a_channel_before_and_after():
    channel, calls = Channel(10), []
    channel.listen(lambda: calls.append(channel.is_closed))
    channel.close()
    channel.listen(lambda: calls.append(channel.take()))
    assert calls == [True, (None, False)]


@pytest.mark.parametrize(
    ("end", "expected"),
    [(lambda c: c.connect(), None), (lambda c: c.close(), "closed")],
    ids=["connect", "close"],
)
def test_who_waits_for_the_other_end_is_woken_by(end, expected):
    channel = Channel(10)
    thread, outcome = started(channel.wait_connected)
    end(channel)
    thread.join(60)
    assert outcome == [expected]


def test_a_channel_that_was_connected_before_it_closed_was_read():
    channel = Channel(10)
    channel.connect()
    channel.close()
    channel.wait_connected()
