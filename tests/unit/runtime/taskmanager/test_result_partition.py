"""Where each exchange sends a batch, and what waiting for room counts as."""

import threading

import pyarrow as pa
import pytest

from sqlstream.elements import CheckpointBarrier, EndOfInput, LatencyMarker, Watermark, WatermarkStatus
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.runtime.taskmanager.result_partition import ResultPartition, size_of, splitter

BATCH = pa.record_batch({"k": pa.array(range(100), pa.int64())})


@pytest.mark.parametrize(
    ("kind", "subtask", "targets"),
    [
        (ExchangeKind.REBALANCE, 0, [[0], [1], [2], [0]]),
        (ExchangeKind.REBALANCE, 4, [[1], [2], [0], [1]]),
        (ExchangeKind.RESCALE, 1, [[1], [2], [0], [1]]),
        (ExchangeKind.BROADCAST, 0, [[0, 1, 2]] * 4),
        (ExchangeKind.SINGLETON, 2, [[0]] * 4),
    ],
)
def test_whole_batches_go_to(kind, subtask, targets):
    split = splitter(Exchange(kind), 3, subtask, 128)
    sent = [split.split(BATCH) for _ in targets]
    assert [[i for i, *_ in parts] for parts in sent] == targets
    assert all((part, size) == (BATCH, BATCH.nbytes) for parts in sent for _, part, size, _ in parts)


def test_a_hash_exchange_keeps_every_row_and_its_order_within_a_part():
    parts = splitter(Exchange(ExchangeKind.HASH, (0,)), 4, 0, 128).split(BATCH)
    values = {i: part.column(0).to_pylist() for i, part, *_ in parts}
    assert sorted(v for vs in values.values() for v in vs) == list(range(100))
    assert all(vs == sorted(vs) for vs in values.values())
    assert len(values) == 4


def test_elements_go_to_every_consumer():
    channels = tuple(Channel(1000) for _ in range(3))
    partition = ResultPartition(channels, splitter(Exchange(ExchangeKind.SINGLETON), 3, 0, 128), TaskTimes())
    partition.broadcast(EndOfInput())
    assert [c.take()[0].item for c in channels] == [EndOfInput()] * 3


def test_each_marker_goes_to_one_consumer_in_turn():
    channels = tuple(Channel(1000) for _ in range(2))
    partition = ResultPartition(channels, splitter(Exchange(ExchangeKind.HASH, (0,)), 2, 0, 128), TaskTimes())
    markers = [LatencyMarker(n, 0, 0) for n in range(4)]
    for marker in markers:
        partition.write_marker(marker)
    found = [[c.take()[0].item for _ in range(2)] for c in channels]
    assert found == [[markers[1], markers[3]], [markers[0], markers[2]]]


def test_no_marker_is_queued_where_rows_wait_for_room():
    channel = Channel(200)
    forward = splitter(Exchange(ExchangeKind.HASH, (0,)), 1, 0, 128)
    partition = ResultPartition((channel,), forward, TaskTimes())
    channel.put(pa.record_batch({"a": [1]}), 300)
    for n in range(100):
        partition.write_marker(LatencyMarker(n, 0, 0))
    assert channel.queued_bytes == 300


def test_an_unaligned_barrier_passes_the_rows_and_an_aligned_one_does_not():
    for is_unaligned in (True, False):
        channel = Channel(1000)
        partition = ResultPartition(
            (channel,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes()
        )
        barrier = CheckpointBarrier(1, 0, is_unaligned=is_unaligned)
        partition.write(BATCH)
        if is_unaligned:
            assert partition.broadcast_first(barrier) == [[BATCH]]
        else:
            partition.broadcast(barrier)
        items = [channel.take()[0].item for _ in range(2)]
        assert items == ([barrier, BATCH] if is_unaligned else [BATCH, barrier])


def test_what_was_under_way_to_a_consumer_goes_before_all_else_and_takes_room():
    channels = tuple(Channel(100) for _ in range(2))
    partition = ResultPartition(channels, splitter(Exchange(ExchangeKind.REBALANCE), 2, 0, 128), TaskTimes())
    partition.restore(1, [BATCH, Watermark(5)])
    partition.broadcast(Watermark(7))
    assert [channels[1].take()[0].item for _ in range(3)] == [BATCH, Watermark(5), Watermark(7)]
    assert channels[0].take()[0].item == Watermark(7)
    partition.restore(0, [BATCH] * 20)
    assert not partition.has_room


def test_a_partition_has_room_when_all_its_channels_have_room():
    channels = tuple(Channel(BATCH.nbytes) for _ in range(2))
    partition = ResultPartition(channels, splitter(Exchange(ExchangeKind.REBALANCE), 2, 0, 128), TaskTimes())
    calls = []
    partition.when_room(lambda: calls.append("room"))
    assert partition.has_room
    partition.write(BATCH)
    assert not partition.has_room
    partition.write(BATCH)
    channels[1].take()
    assert (partition.has_room, calls) == (False, ["room"])
    channels[0].take()
    assert (partition.has_room, calls) == (True, ["room"] * 2)


def test_an_operator_that_overdraws_waits_which_is_backpressure():
    channel, times = Channel(BATCH.nbytes), TaskTimes()
    partition = ResultPartition((channel,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), times)
    partition.write(BATCH)
    partition.write(BATCH)
    assert channel.is_overdrawn
    writer = threading.Thread(target=partition.write, args=(BATCH,))
    writer.start()
    # Read until the wait makes up nearly all of an interval.
    while times.read_ratios()["backPressuredTimeMsPerSecond"] < 990:
        continue
    assert channel.queued_bytes == 2 * BATCH.nbytes
    channel.take()
    channel.take()
    writer.join(60)
    assert partition.bytes_out == 3 * BATCH.nbytes
    ratios = times.total_ratios()
    assert sum(ratios.values()) == 1000
    assert ratios["backPressuredTimeMsPerSecond"] > 0


def test_only_event_time_leaves_a_consumer_that_waits_asleep():
    for element, is_woken in (
        (Watermark(1), False),
        (WatermarkStatus(True), False),
        (CheckpointBarrier(1, 0), True),
        (EndOfInput(), True),
    ):
        channel, calls = Channel(1 << 20, wake_bytes=1 << 10), []
        channel.listen(lambda calls=calls: calls.append("readable"))
        partition = ResultPartition(
            (channel,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes()
        )
        partition.broadcast(element)
        assert bool(calls) is is_woken, element


def test_a_batch_counts_the_memory_that_it_holds_but_not_all_of_what_slices_share():
    assert size_of(BATCH.slice(0, 1)) == BATCH.nbytes
    large = pa.record_batch({"a": pa.array(range(1 << 19), pa.int64())})
    assert size_of(large.slice(0, 10)) == 80
