"""A barrier with a time limit on its way out of a task."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.elements import CheckpointBarrier, Watermark
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import DepartingBarrier
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.runtime.taskmanager.result_partition import ResultPartition, splitter

BATCH = pa.record_batch({"v": [1]})
BARRIER = CheckpointBarrier(4, 0, overtakes_at_ms=1_000)


def sent(*channels: Channel) -> DepartingBarrier:
    """A batch and a watermark are queued before the barrier."""
    split = splitter(Exchange(ExchangeKind.BROADCAST), len(channels), 0, 128)
    partition = ResultPartition(channels, split, TaskTimes())
    partition.write(BATCH)
    partition.broadcast(Watermark(1))
    partition.broadcast(BARRIER)
    return DepartingBarrier(BARRIER, [partition])


def test_one_that_leaves_in_time_passes_nothing() -> None:
    channels = Channel(1000), Channel(1000)
    departing = sent(*channels)
    for channel in channels:
        assert departing.passed(900) is None
        for _ in range(3):
            channel.take()
    assert departing.passed(900) == {(True, 0, 0): [], (True, 0, 1): []}


def test_one_that_waits_for_too_long_passes_what_is_before_it_where_it_has_not_left() -> None:
    channels = Channel(1000), Channel(1000)
    departing = sent(*channels)
    for _ in range(3):
        channels[0].take()
    assert departing.passed(999) is None
    assert departing.passed(1_000) == {(True, 0, 0): [], (True, 0, 1): [BATCH, Watermark(1)]}
    first, _ = channels[1].take_first()
    assert first is not None
    assert first.item.is_unaligned


def test_it_is_looked_at_now_and_then_and_when_its_time_is_over() -> None:
    departing = sent(Channel(1000))
    assert [departing.next_look_ms(now_ms) for now_ms in (500, 995, 2_000)] == [510, 1_000, 2_000]
