"""What a task does with each thing that it is given, one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.elements import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    CheckpointBarrier,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from sqlstream.errors import JobError
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint import ChannelTime, SubtaskState
from sqlstream.runtime.kernels.keys.hashing import KeyHashes, known_hashes
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.taskmanager.checkpoints.barrier_aligner import BarrierAligner
from sqlstream.runtime.taskmanager.checkpoints.unaligned_capture import UnalignedCapture
from sqlstream.runtime.taskmanager.input_gate import InputGate
from sqlstream.runtime.taskmanager.inputs.network_input import NetworkInput
from sqlstream.runtime.taskmanager.inputs.source_input import SourceHead, SourceInput, poll_pause_s
from sqlstream.runtime.taskmanager.inputs.task_input import (
    NO_PAUSE,
    UNTIL_DECIDED,
    UNTIL_INPUT,
    UNTIL_ROOM,
    FinishedInput,
)
from sqlstream.runtime.taskmanager.mailbox import Mailbox, ProcessingTimers
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.runtime.taskmanager.operator_chain import ChainPosition
from sqlstream.runtime.taskmanager.result_partition import ResultPartition, splitter
from sqlstream.runtime.taskmanager.task_loop import TaskLoop
from sqlstream.spi.connector import SourceStatus

ROWS = pa.record_batch({"v": [1, 2, 3]})


class Log:
    """The first operator of a chain, the chain, and the output of a source: each call is noted."""

    side_input = None

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.head = self.operator = self
        self.wall_ms = 1_000
        self.timers = ProcessingTimers(lambda: self.wall_ms)
        self.now_ms = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))

    def checkpoint(self, barrier: CheckpointBarrier, arrivals: dict[int, int]) -> None:
        self.arrivals = arrivals
        self.calls.append(("checkpoint", barrier, max(arrivals.values(), default=0)))

    def captured(self, barrier: CheckpointBarrier, recorded: Any, arrivals: dict[int, int]) -> None:
        self.arrivals = arrivals
        self.calls.append(("captured", barrier, recorded, max(arrivals.values(), default=0)))

    def taken(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls


class Reader:
    """A source whose answers are given."""

    def __init__(self, *answers: Any, due_ms: int | None = None) -> None:
        self.answers = list(answers)
        self.due_ms = due_ms
        self.is_closed = False
        self.polls = 0

    def poll(self) -> Any:
        self.polls += 1
        return self.answers.pop(0)

    def next_poll_ms(self) -> int | None:
        return self.due_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"read": self.polls}]

    def close(self) -> None:
        self.is_closed = True


class TimedReader(Reader):
    """One that makes watermarks."""

    def watermark_ms(self) -> int:
        return 77


def source_of(reader: Any, log: Log, assignment: int = -1) -> Any:
    head: Any = SourceHead("c", reader, assignment=assignment)  # type: ignore[arg-type]
    return SourceInput(head, log, lambda n: None, ChainPosition(), lambda: 7, log.checkpoint)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("due_ms", "now_ms", "pause_s"),
    [
        (None, 1_000, 0.010),
        (None, 1_009, 0.001),
        (1_020, 1_000, 0.020),
        (1_021, 1_000, 0.030),
        (500, 1_000, 0.010),
        (1_001, 1_000, 0.010),
        (9_000, 1_000, 1.0),
    ],
)
def test_a_reader_without_rows_is_polled_on_the_grid_of_the_clock(
    due_ms: int | None, now_ms: int, pause_s: float
) -> None:
    assert poll_pause_s(due_ms, now_ms) == pytest.approx(pause_s)


@pytest.mark.parametrize("is_timed", [False, True])
def test_a_source_emits_its_rows_then_its_watermark_until_its_end(is_timed: bool) -> None:
    log, counted, position = Log(), list[int](), ChainPosition()
    reader = (TimedReader if is_timed else Reader)(
        ROWS, SourceStatus.NOTHING_YET, SourceStatus.END, due_ms=1_035
    )
    chained: Any = "chained"
    head = SourceHead(chained, reader)
    made: Any = SourceInput(head, log, counted.append, position, lambda: 1_000)  # type: ignore[arg-type]
    marks: list[Any] = [("emit_watermark", 77)] if is_timed else []
    made.open()
    assert made.take() is NO_PAUSE
    assert (log.taken(), counted, position.current) == ([("emit", ROWS), *marks], [3], "chained")
    assert made.take().longest_s == pytest.approx(0.04)
    assert (log.taken(), made.is_finished) == (marks, False)
    assert made.take() is NO_PAUSE
    assert (log.taken(), made.is_finished, counted) == ([], True, [3])
    made.finish(5)
    made.close()
    assert (log.taken(), reader.is_closed) == ([("finish", 5)], True)
    assert (made.watermark_ms, made.bytes_in) == (WATERMARK_MIN, 0)


def network(
    *channels: int, restored: tuple[tuple[int, Any], ...] = (), blocks: bool = True
) -> tuple[NetworkInput, InputGate, Log, Mailbox]:
    """The inputs have so many channels; checkpoints are noted too, and given up after 10 ms."""
    mailbox, log = Mailbox(), Log()
    made = tuple(tuple(Channel(1 << 20) for _ in range(count)) for count in channels)
    gate = InputGate(tuple(range(len(channels))), made, mailbox)
    aligner = BarrierAligner(
        gate.count_open, log.checkpoint, log.given_up, lambda: log.now_ms, 10, blocks=blocks
    )
    capture = UnalignedCapture(
        gate.channels, log.begun, log.captured, log.given_up, lambda: log.now_ms, timeout_ms=10
    )
    left = [(gate.channels[number], item) for number, item in restored]
    made_input = NetworkInput(gate, mailbox.take_readable, log, aligner, capture, left)  # type: ignore[arg-type]
    return made_input, gate, log, mailbox


def test_items_of_channels_mean_what_all_channels_together_say() -> None:
    made, gate, log, _ = network(2, 1)
    first, second, other = gate.channels
    for channel, item, expected in (
        (first, ROWS, [("on_batch", ROWS, 0)]),
        (other, ROWS, [("on_batch", ROWS, 1)]),
        (first, Watermark(10), []),
        (second, Watermark(7), []),
        (other, Watermark(9), [("on_watermark", 7)]),
        (second, Watermark(30), [("on_watermark", 9)]),
        (other, WatermarkStatus(True), [("on_watermark", 10)]),
        (first, WatermarkStatus(True), [("on_watermark", 30)]),
        (second, WatermarkStatus(True), [("on_idle", True)]),
        (second, WatermarkStatus(False), [("on_idle", False)]),
        (first, EndOfInput(), []),
        (second, Watermark(40), [("on_watermark", 40)]),
        (other, WatermarkStatus(False), []),
        (second, EndOfInput(), [("on_end_of_input", 0)]),
    ):
        made.on_item(channel, item)
        assert log.taken() == expected, item
    assert (made.watermark_ms, made.is_finished) == (40, False)
    times = (ChannelTime(WATERMARK_MAX, False), ChannelTime(WATERMARK_MAX, False), ChannelTime(9, False))
    assert made.position() == SubtaskState(channels=times)
    made.on_item(other, EndOfInput())
    assert log.taken()[-1] == ("on_end_of_input", 1)
    assert made.is_finished
    made.finish(5)
    assert log.taken()[-1] == ("finish", 5)


def test_operators_get_the_last_watermark_once() -> None:
    for sends_it in (True, False):
        made, gate, log, _ = network(1)
        (channel,) = gate.channels
        if sends_it:
            made.on_item(channel, Watermark(WATERMARK_MAX))
        made.on_item(channel, EndOfInput())
        made.finish(5)
        assert log.taken().count(("on_watermark", WATERMARK_MAX)) == 1


def barrier(checkpoint_id: int, is_drain: bool = False, is_last: bool = False) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 1_000, is_drain=is_drain, is_last=is_last)


def taken_of(made: NetworkInput, log: Log) -> list[tuple[Any, ...]]:
    """All calls until the input waits."""
    for _ in range(100):
        if made.take() is UNTIL_INPUT:
            return log.taken()
    raise AssertionError("the input does not come to rest")


def put(gate: InputGate, place: int, *items: Any) -> None:
    for item in items:
        gate.channels[place].channel.put(item, 1)


def rows(value: int) -> pa.RecordBatch:
    return pa.record_batch({"v": [value]})


def test_a_channel_whose_barrier_has_come_waits_for_the_others() -> None:
    made, gate, log, _ = network(2, 1)
    made.open()
    put(gate, 0, rows(1), barrier(5), rows(2))
    assert taken_of(made, log) == [("on_batch", rows(1), 0)]
    log.now_ms = 4
    put(gate, 1, barrier(5))
    put(gate, 2, rows(3), barrier(5), rows(4))
    log_after = taken_of(made, log)
    assert log_after[:2] == [("on_batch", rows(3), 1), ("checkpoint", barrier(5), 4)]
    # What came behind the barriers follows, in the order of each channel.
    assert sorted(log_after[2:], key=lambda call: call[2]) == [
        ("on_batch", rows(2), 0),
        ("on_batch", rows(4), 1),
    ]
    put(gate, 0, rows(6))
    assert taken_of(made, log) == [("on_batch", rows(6), 0)]


def test_no_channel_waits_where_rows_count_at_least_once() -> None:
    made, gate, log, _ = network(2, blocks=False)
    made.open()
    put(gate, 0, barrier(5), rows(1))
    assert taken_of(made, log) == [("on_batch", rows(1), 0)]
    put(gate, 1, rows(2), barrier(5), rows(3))
    assert taken_of(made, log) == [
        ("on_batch", rows(2), 0),
        ("checkpoint", barrier(5), 0),
        ("on_batch", rows(3), 0),
    ]


def test_a_second_barrier_of_a_channel_waits_where_rows_count_at_least_once() -> None:
    made, gate, log, mailbox = network(2, blocks=False)
    made.open()
    put(gate, 0, barrier(1), rows(1), barrier(2), rows(2))
    assert taken_of(made, log) == [("on_batch", rows(1), 0)]
    assert mailbox.take_readable() is None
    put(gate, 1, barrier(1))
    assert taken_of(made, log) == [("checkpoint", barrier(1), 0), ("on_batch", rows(2), 0)]
    put(gate, 1, barrier(2), barrier(3))
    put(gate, 0, barrier(3), barrier(4), rows(3))
    assert taken_of(made, log) == [
        ("checkpoint", barrier(2), 0),
        ("checkpoint", barrier(3), 0),
        ("on_batch", rows(3), 0),
    ]
    put(gate, 0, barrier(5), rows(4))
    assert taken_of(made, log) == []
    # The abortion of the checkpoint under way is the turn of the one that waits.
    made.on_checkpoint_aborted(4)
    assert taken_of(made, log) == [("on_batch", rows(4), 0)]
    put(gate, 1, barrier(5))
    assert taken_of(made, log) == [("checkpoint", barrier(5), 0)]


def test_a_channel_that_ends_behind_its_barrier_is_waited_for_no_more() -> None:
    made, gate, log, _ = network(2, 1, blocks=False)
    made.open()
    put(gate, 0, barrier(1), EndOfInput())
    assert taken_of(made, log) == []
    put(gate, 1, barrier(1))
    assert taken_of(made, log) == []
    put(gate, 2, barrier(1))
    assert taken_of(made, log) == [("checkpoint", barrier(1), 0)]


@pytest.mark.parametrize("how", [{"directory": "savepoint"}, {"is_last": True}])
def test_savepoints_and_the_last_checkpoint_are_aligned_in_any_case(how: dict[str, Any]) -> None:
    made, gate, log, _ = network(2, blocks=False)
    made.open()
    mark = CheckpointBarrier(1, 0, **how)
    put(gate, 0, mark, rows(1))
    assert taken_of(made, log) == []
    put(gate, 1, mark)
    assert taken_of(made, log) == [("checkpoint", mark, 0), ("on_batch", rows(1), 0)]


def test_each_channel_tells_how_long_the_first_barrier_was_ahead_of_its_own() -> None:
    made, gate, log, _ = network(2, 2)
    made.open()
    for now_ms, place, item in (
        (2, 3, barrier(5)),
        (5, 0, barrier(5)),
        (6, 1, EndOfInput()),
        (9, 2, barrier(5)),
    ):
        log.now_ms = now_ms
        put(gate, place, item)
        made_calls = taken_of(made, log)
    assert (made_calls, log.arrivals) == ([("checkpoint", barrier(5), 7)], {3: 0, 0: 3, 1: 4, 2: 7})
    # A channel that had ended before is not waited for.
    for now_ms, place in ((10, 2), (10, 3), (11, 0)):
        log.now_ms = now_ms
        put(gate, place, barrier(6))
        taken_of(made, log)
    assert log.arrivals == {2: 0, 3: 0, 0: 1}


def test_rows_that_come_to_a_blocked_channel_do_not_keep_the_task_from_waiting() -> None:
    made, gate, log, mailbox = network(2)
    made.open()
    put(gate, 0, barrier(1))
    assert taken_of(made, log) == []
    for n in range(3):
        put(gate, 0, rows(n))
        assert taken_of(made, log) == []
        assert mailbox.take_readable() is None
    put(gate, 1, barrier(1))
    assert taken_of(made, log) == [
        ("checkpoint", barrier(1), 0),
        *[("on_batch", rows(n), 0) for n in range(3)],
    ]


def test_a_channel_that_ends_has_sent_every_barrier() -> None:
    made, gate, log, _ = network(2, 1)
    made.open()
    put(gate, 0, barrier(1))
    put(gate, 2, barrier(1))
    assert taken_of(made, log) == []
    put(gate, 1, EndOfInput())
    assert taken_of(made, log) == [("checkpoint", barrier(1), 0)]
    put(gate, 0, barrier(2), EndOfInput())
    assert taken_of(made, log) == []
    put(gate, 2, EndOfInput())
    # The end of an input is part of the checkpoint, and that of the other follows it.
    assert taken_of(made, log) == [
        ("on_end_of_input", 1),
        ("checkpoint", barrier(2), 0),
        ("on_watermark", WATERMARK_MAX),
        ("on_end_of_input", 0),
    ]
    assert made.is_finished


def test_a_later_barrier_gives_the_earlier_checkpoint_up() -> None:
    made, gate, log, _ = network(2)
    made.open()
    put(gate, 0, barrier(1), rows(1))
    put(gate, 1, barrier(2), rows(2))
    why = "the barrier of checkpoint 2 came before it was complete"
    assert taken_of(made, log) == [("given_up", 1, why, False), ("on_batch", rows(1), 0)]
    put(gate, 0, barrier(2))
    assert taken_of(made, log) == [("checkpoint", barrier(2), 0), ("on_batch", rows(2), 0)]


def test_an_aborted_checkpoint_blocks_nothing_and_its_late_barriers_are_dropped() -> None:
    made, gate, log, _ = network(2)
    made.open()
    put(gate, 0, barrier(3), rows(1))
    assert taken_of(made, log) == []
    made.on_checkpoint_aborted(2)
    assert taken_of(made, log) == []
    made.on_checkpoint_aborted(3)
    made.on_checkpoint_aborted(3)
    put(gate, 1, barrier(3), rows(2), barrier(4))
    assert taken_of(made, log) == [("on_batch", rows(1), 0), ("on_batch", rows(2), 0)]
    put(gate, 0, barrier(4))
    assert taken_of(made, log) == [("checkpoint", barrier(4), 0)]


def test_barriers_of_several_checkpoints_are_aligned_one_after_the_other() -> None:
    made, gate, log, _ = network(2)
    made.open()
    put(gate, 0, barrier(1), rows(1), barrier(2), rows(2))
    assert taken_of(made, log) == []
    put(gate, 1, barrier(1))
    assert taken_of(made, log) == [("checkpoint", barrier(1), 0), ("on_batch", rows(1), 0)]
    put(gate, 1, barrier(2))
    assert taken_of(made, log) == [("checkpoint", barrier(2), 0), ("on_batch", rows(2), 0)]


@pytest.mark.parametrize("is_under_way", [True, False])
def test_an_earlier_checkpoint_that_is_still_pending_outlives_the_abortion_of_a_later_one(
    is_under_way: bool,
) -> None:
    made, gate, log, _ = network(2)
    made.open()
    if is_under_way:
        put(gate, 0, barrier(1))
        assert taken_of(made, log) == []
    made.on_checkpoint_aborted(2, (1,))
    if not is_under_way:
        put(gate, 0, barrier(1))
    put(gate, 0, barrier(2), barrier(3))
    put(gate, 1, barrier(1), barrier(2), rows(2))
    assert taken_of(made, log) == [("checkpoint", barrier(1), 0), ("on_batch", rows(2), 0)]
    put(gate, 1, barrier(3))
    assert taken_of(made, log) == [("checkpoint", barrier(3), 0)]


def test_an_alignment_is_given_up_when_the_job_master_must_have_aborted_it() -> None:
    made, gate, log, _ = network(2)
    made.open()
    assert made.wait_s(None) is None
    assert made.wait_s(3.0) == 3.0
    put(gate, 0, barrier(1), rows(1))
    taken_of(made, log)
    assert made.wait_s(None) == made.wait_s(3.0) == 0.01
    assert made.wait_s(0.001) == 0.001
    log.now_ms = 9
    made.fire_timers()
    assert taken_of(made, log) == []
    log.now_ms = 10
    made.fire_timers()
    assert taken_of(made, log) == [
        ("given_up", 1, "its barriers did not come from all inputs within 0.01 s", True),
        ("on_batch", rows(1), 0),
    ]


def unaligned(checkpoint_id: int) -> CheckpointBarrier:
    return CheckpointBarrier(checkpoint_id, 1_000, is_unaligned=True)


def pass_all(gate: InputGate, mailbox: Mailbox, place: int, checkpoint_id: int, *, is_far: bool) -> None:
    """A barrier passes what is queued, and the task does its mail."""
    gate.channels[place].channel.put_first(unaligned(checkpoint_id), 1, keeps_passed=is_far)
    while (mail := mailbox.take_mail()) is not None:
        mail()


@pytest.mark.parametrize("is_far", [True, False])
def test_an_unaligned_barrier_is_taken_while_the_task_takes_no_input(is_far: bool) -> None:
    made, gate, log, mailbox = network(1)
    made.open()
    put(gate, 0, rows(1), Watermark(5), rows(2))
    pass_all(gate, mailbox, 0, 1, is_far=is_far)
    # What was queued in this process belongs to the checkpoint of its producer.
    in_flight = {0: [rows(1), Watermark(5), rows(2)]} if is_far else {}
    assert log.taken() == [("begun", unaligned(1)), ("captured", unaligned(1), in_flight, 0)]
    assert taken_of(made, log) == [("on_batch", rows(1), 0), ("on_watermark", 5), ("on_batch", rows(2), 0)]


def test_what_comes_before_a_late_barrier_is_worked_on_and_part_of_the_checkpoint() -> None:
    made, gate, log, mailbox = network(1, 2)
    made.open()
    put(gate, 1, rows(1))
    put(gate, 2, Watermark(3), EndOfInput())
    pass_all(gate, mailbox, 0, 4, is_far=True)
    assert log.taken() == [("begun", unaligned(4))]
    log.now_ms = 6
    assert taken_of(made, log) == [("on_batch", rows(1), 1)]
    put(gate, 0, rows(7))
    put(gate, 1, rows(2), rows(3))
    pass_all(gate, mailbox, 1, 4, is_far=True)
    in_flight = {1: [rows(1), rows(2), rows(3)], 2: [Watermark(3)]}
    assert log.taken() == [("captured", unaligned(4), in_flight, 6)]
    # They are not recorded twice, and the next checkpoint begins anew.
    taken_of(made, log)
    pass_all(gate, mailbox, 0, 5, is_far=True)
    pass_all(gate, mailbox, 1, 5, is_far=True)
    assert log.taken() == [("begun", unaligned(5)), ("captured", unaligned(5), {}, 0)]


def test_what_is_left_of_the_restored_items_is_worked_on_first_and_part_of_the_next_checkpoint() -> None:
    made, gate, log, mailbox = network(2, restored=((1, rows(1)), (0, rows(2)), (1, rows(3))))
    made.open()
    put(gate, 0, rows(4))
    made.take()
    assert log.taken() == [("on_batch", rows(1), 0)]
    for place in (0, 1):
        pass_all(gate, mailbox, place, 1, is_far=True)
    in_flight = {0: [rows(2), rows(4)], 1: [rows(3)]}
    assert log.taken() == [("begun", unaligned(1)), ("captured", unaligned(1), in_flight, 0)]
    assert taken_of(made, log) == [("on_batch", rows(n), 0) for n in (2, 3, 4)]


def test_an_unaligned_checkpoint_ends_with_its_abortion_with_a_later_one_and_with_its_time() -> None:
    made, gate, log, mailbox = network(2)
    made.open()
    pass_all(gate, mailbox, 0, 1, is_far=True)
    made.on_checkpoint_aborted(1)
    pass_all(gate, mailbox, 1, 1, is_far=True)
    assert log.taken() == [("begun", unaligned(1))]
    pass_all(gate, mailbox, 0, 2, is_far=True)
    pass_all(gate, mailbox, 0, 3, is_far=True)
    why = "the barrier of checkpoint 3 came before it was complete"
    assert log.taken() == [("begun", unaligned(2)), ("given_up", 2, why, False), ("begun", unaligned(3))]
    log.now_ms = 10
    made.fire_timers()
    assert log.taken()[0] == ("given_up", 3, "its barriers did not come from all inputs within 0.01 s", True)
    assert all(channel.recorded is None for channel in gate.channels)


def test_aligned_and_unaligned_checkpoints_give_up_each_other() -> None:
    made, gate, log, mailbox = network(2)
    made.open()
    put(gate, 0, barrier(1), rows(1))
    assert taken_of(made, log) == []
    pass_all(gate, mailbox, 1, 2, is_far=True)
    assert log.taken() == [("begun", unaligned(2))]
    assert taken_of(made, log) == [("on_batch", rows(1), 0)]
    put(gate, 1, barrier(3))
    put(gate, 0, rows(2), barrier(3))
    assert taken_of(made, log) == [("on_batch", rows(2), 0), ("checkpoint", barrier(3), 0)]
    assert all(channel.recorded is None for channel in gate.channels)


def timed(checkpoint_id: int, is_unaligned: bool = False) -> CheckpointBarrier:
    """It waits until 1,005 ms of the wall clock."""
    return CheckpointBarrier(checkpoint_id, 1_000, is_unaligned=is_unaligned, overtakes_at_ms=1_005)


def test_an_alignment_that_is_complete_in_time_stays_one() -> None:
    made, gate, log, _ = network(2)
    made.open()
    put(gate, 0, timed(1), rows(1))
    assert taken_of(made, log) == []
    assert log.timers.next_ms() == 1_005
    log.wall_ms, log.now_ms = 1_004, 4
    log.timers.fire_due()
    put(gate, 1, rows(2), timed(1))
    assert taken_of(made, log) == [
        ("on_batch", rows(2), 0),
        ("checkpoint", timed(1), 4),
        ("on_batch", rows(1), 0),
    ]
    assert log.timers.next_ms() is None


@pytest.mark.parametrize("passes", [True, False])
def test_an_alignment_whose_time_is_over_goes_on_with_what_the_late_channels_yield(passes: bool) -> None:
    made, gate, log, mailbox = network(3)
    made.open()
    put(gate, 0, timed(1), rows(1))
    put(gate, 1, rows(2))
    assert taken_of(made, log) == [("on_batch", rows(2), 0)]
    log.wall_ms, log.now_ms = 1_005, 5
    log.timers.fire_due()
    assert log.taken() == [("begun", timed(1, is_unaligned=True))]
    # The channel that had to wait is read on, as part of what follows the checkpoint.
    put(gate, 1, rows(3), timed(1), rows(4))
    worked = taken_of(made, log)
    assert sorted(call[1]["v"][0].as_py() for call in worked) == [1, 3, 4]
    log.now_ms = 7
    put(gate, 2, rows(5), timed(1))
    if passes:
        # Its producer has the barrier pass what waits, and keeps that.
        assert [q.item for q in gate.channels[2].channel.overtake(1)] == [rows(5)]
        while (mail := mailbox.take_mail()) is not None:
            mail()
        in_flight = {1: [rows(3)]}
        assert log.taken() == [("captured", timed(1, is_unaligned=True), in_flight, 7)]
        assert taken_of(made, log) == [("on_batch", rows(5), 0)]
    else:
        in_flight = {1: [rows(3)], 2: [rows(5)]}
        assert taken_of(made, log) == [
            ("on_batch", rows(5), 0),
            ("captured", timed(1, is_unaligned=True), in_flight, 7),
        ]
    assert log.arrivals == {0: 0, 1: 5, 2: 7}
    assert all(channel.recorded is None for channel in gate.channels)


def test_a_barrier_that_has_passed_rows_elsewhere_ends_the_alignment_at_once() -> None:
    made, gate, log, mailbox = network(2)
    made.open()
    put(gate, 0, timed(1), rows(1))
    put(gate, 1, rows(2))
    gate.channels[1].channel.put_first(timed(1, is_unaligned=True), 1, keeps_passed=True)
    taken = taken_of(made, log)
    while (mail := mailbox.take_mail()) is not None:
        mail()
    assert [call[0] for call in taken if call[0] != "on_batch"] == ["begun", "captured"]
    (captured,) = [call for call in taken if call[0] == "captured"]
    assert captured[2] == {1: [rows(2)]}


def test_a_barrier_from_another_process_passes_what_it_came_behind_when_its_time_is_over() -> None:
    made, gate, log, mailbox = network(1)
    made.open()
    channel = gate.channels[0].channel
    put(gate, 0, rows(1), rows(2), timed(1))
    assert channel.on_timed is not None
    channel.on_timed(timed(1))
    while (mail := mailbox.take_mail()) is not None:
        mail()
    made.take()
    assert log.taken() == [("on_batch", rows(1), 0)]
    log.wall_ms = 1_005
    log.timers.fire_due()
    while (mail := mailbox.take_mail()) is not None:
        mail()
    late = timed(1, is_unaligned=True)
    assert log.taken() == [("begun", late), ("captured", late, {0: [rows(2)]}, 0)]
    assert taken_of(made, log) == [("on_batch", rows(2), 0)]


def test_a_source_takes_a_checkpoint_between_two_polls_and_none_behind_its_end() -> None:
    log = Log()
    made = source_of(Reader(ROWS, SourceStatus.END), log, assignment=0)
    made.take()
    made.on_trigger(barrier(1))
    assert log.taken() == [("emit", ROWS), ("checkpoint", barrier(1), 0)]
    assert made.position() == SubtaskState(splits=({"read": 1},), assignment=0)
    made.take()
    made.on_trigger(barrier(2))
    assert log.taken() == []


def test_a_drained_source_reads_nothing_more_and_fails_with_its_savepoint() -> None:
    log = Log()
    made = source_of(Reader(ROWS), log)
    made.on_trigger(barrier(2, is_drain=True))
    made.on_trigger(barrier(3))
    assert (made.take(), log.taken()) == (UNTIL_DECIDED, [("checkpoint", barrier(2, is_drain=True), 0)])
    made.on_checkpoint_aborted(1)
    with pytest.raises(JobError, match="savepoint 2 has failed after event time was ended for it"):
        made.on_checkpoint_aborted(2)


def test_a_source_reads_nothing_behind_the_last_checkpoint_until_that_is_aborted() -> None:
    log = Log()
    made = source_of(Reader(ROWS, ROWS), log)
    made.on_trigger(barrier(2, is_last=True))
    made.on_trigger(barrier(3))
    log.taken()
    assert (made.take(), log.taken()) == (UNTIL_DECIDED, [])
    made.on_checkpoint_aborted(1)
    assert made.take() is UNTIL_DECIDED
    made.on_checkpoint_aborted(2)
    assert (made.take(), log.taken()) == (NO_PAUSE, [("emit", ROWS)])


def test_a_task_that_had_finished_passes_on_the_end_once_it_has_come() -> None:
    mailbox = Mailbox()
    inputs, output = (Channel(1 << 20), Channel(1 << 20)), Channel(1 << 20)
    gate = InputGate((0,), (inputs,), mailbox)
    partition = ResultPartition((output,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes())
    made = FinishedInput(gate, mailbox.take_readable, [partition])
    made.open()
    for channel in inputs:
        assert (made.take(), made.is_finished) == (UNTIL_INPUT, False)
        for item in (Watermark(WATERMARK_MAX), EndOfInput()):
            channel.put(item, 1)
            assert made.take() is NO_PAUSE
    assert made.is_finished
    made.finish(5)
    made.close()
    items = [output.take()[0] for _ in range(2)]
    assert [queued.item for queued in items if queued] == [Watermark(WATERMARK_MAX), EndOfInput()]


def test_one_item_is_taken_a_step_in_the_turn_of_the_channels() -> None:
    made, gate, log, _ = network(2)
    made.open()
    assert made.take() is UNTIL_INPUT
    for channel in gate.channels:
        for _ in range(2):
            channel.channel.put(ROWS, ROWS.nbytes)
    steps = 0
    while made.take() is NO_PAUSE:
        steps += 1
    assert steps >= 4
    assert log.taken() == [("on_batch", ROWS, 0)] * 4
    assert made.bytes_in == 4 * ROWS.nbytes
    made.close()
    assert all(channel.channel.is_closed for channel in gate.channels)


def test_the_loop_takes_nothing_while_an_output_is_full() -> None:
    log = Log()
    outputs = [Channel(10), Channel(10)]
    partitions = [
        ResultPartition((c,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes())
        for c in outputs
    ]
    made = source_of(Reader(ROWS, ROWS), log)
    loop = TaskLoop(made, log, partitions, lambda: 9)  # type: ignore[arg-type]
    assert loop.take() is NO_PAUSE
    outputs[1].put(ROWS, 10)
    log.taken()
    assert (loop.has_room, loop.take(), log.taken()) == (False, UNTIL_ROOM, [("hold_back", 9)])
    assert loop.wait_s(UNTIL_ROOM) is None
    outputs[1].take()
    assert (loop.has_room, loop.take(), log.taken()) == (True, NO_PAUSE, [("emit", ROWS)])


def test_the_loop_takes_nothing_while_an_operator_is_full_and_ends_once_no_row_waits_for_another_system() -> (
    None
):
    log = Log()
    log.has_room = log.is_settled = False  # type: ignore[attr-defined]
    loop = TaskLoop(source_of(Reader(ROWS, SourceStatus.END), log), log, [], lambda: 9)  # type: ignore[arg-type]
    assert (loop.has_room, loop.take(), log.taken()) == (False, UNTIL_ROOM, [("hold_back", 9)])
    log.has_room = True  # type: ignore[attr-defined]
    assert (loop.has_room, loop.take(), loop.take()) == (True, NO_PAUSE, NO_PAUSE)
    # All was read, and the rows wait.
    assert (loop.is_finished, loop.has_room, loop.take()) == (False, False, UNTIL_ROOM)
    log.is_settled = True  # type: ignore[attr-defined]
    assert loop.is_finished


def test_a_source_that_has_stopped_for_a_checkpoint_is_not_taken_for_idle() -> None:
    """The checkpoint may be aborted: the rows that it has left would be late."""
    log = Log()
    made = source_of(Reader(ROWS), log)
    loop = TaskLoop(made, log, [], lambda: 9)  # type: ignore[arg-type]
    made.on_trigger(barrier(2, is_last=True))
    log.taken()
    assert (loop.take(), log.taken()) == (UNTIL_DECIDED, [("hold_back", 9)])


class ManualAlignment:
    """Whether the source may read, and when it reports next, as the test says."""

    def __init__(self) -> None:
        self.is_open = False
        self.has_ended = False

    def may_read(self) -> bool:
        return self.is_open

    def due_s(self) -> float:
        return 0.3

    def on_allowed(self, watermark_ms: int) -> None:
        self.is_open = watermark_ms > 0

    def on_end(self) -> None:
        self.has_ended = True


def test_a_source_that_waits_for_other_tables_is_not_polled_and_not_taken_for_idle() -> None:
    log, alignment = Log(), ManualAlignment()
    reader = Reader(ROWS, SourceStatus.NOTHING_YET, SourceStatus.END)
    head: Any = SourceHead("c", reader, alignment=alignment, hands_over=True)  # type: ignore[arg-type]
    made = SourceInput(head, log, lambda n: None, ChainPosition(), lambda: 7, log.checkpoint)  # type: ignore[arg-type]
    loop = TaskLoop(made, log, [], lambda: 9)  # type: ignore[arg-type]
    pause = loop.take()
    assert (pause.longest_s, pause.is_held, reader.polls) == (0.3, True, 0)
    assert log.taken() == [("hold_back", 9)]
    # A timer that makes an output idle would be due now, though its rows are only held.
    loop.fire_timers()
    assert log.taken() == [("hold_back", 9)]
    made.on_allowed(1)
    # What it waited for has ended, which it says once.
    assert (loop.take(), log.taken()) == (NO_PAUSE, [("emit_hand_over",), ("emit", ROWS)])
    # It reports again before its reader is polled.
    assert loop.take().longest_s <= 0.3
    loop.fire_timers()
    assert log.taken() == []
    assert (loop.take(), alignment.has_ended) == (NO_PAUSE, True)
    # What it is told then comes too late.
    made.on_allowed(0)
    assert alignment.is_open


def test_the_loop_wakes_consumers_before_it_waits_and_every_now_and_then() -> None:
    log, now_ms = Log(), [1_000]
    output = Channel(1 << 20, wake_bytes=1 << 20)
    partition = ResultPartition((output,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes())
    calls: list[str] = []
    output.listen(lambda: calls.append("readable"))
    made = source_of(Reader(*[ROWS] * 4), log)
    loop = TaskLoop(made, log, [partition], lambda: now_ms[0])  # type: ignore[arg-type]
    loop.take()
    for passed_ms, is_woken in ((5, False), (14, False), (1, True), (-100, True)):
        now_ms[0] += passed_ms
        partition.write(ROWS)
        if passed_ms != -100:
            loop.take()
        else:
            loop.flush()
        assert bool(calls) is is_woken, passed_ms
        if is_woken:
            calls.clear()
            while output.take()[1]:
                pass


def test_operators_know_the_hashes_that_came_with_a_batch_while_they_work_on_it() -> None:
    made, gate, log, _ = network(1)
    seen: list[Any] = []
    log.on_batch = lambda batch, index: seen.append(known_hashes(batch.columns))  # type: ignore[attr-defined]
    made.open()
    values = np.array([1, 2, 3], dtype=np.uint64)
    gate.channels[0].channel.put(ROWS, 24, KeyHashes(ROWS.columns, values))
    gate.channels[0].channel.put(ROWS, 24)
    assert (made.take(), made.take()) == (NO_PAUSE, NO_PAUSE)
    assert seen[0] is values
    assert (seen[1], known_hashes(ROWS.columns)) == (None, None)


def test_the_loop_releases_the_operators_also_when_the_input_fails() -> None:
    log = Log()

    class Broken(Reader):
        def close(self) -> None:
            raise OSError("cannot close")

    source = source_of(Broken(SourceStatus.END), log)
    loop = TaskLoop(source, log, (), lambda: 9)  # type: ignore[arg-type]
    loop.open()
    assert not loop.is_finished
    assert loop.wait_s(UNTIL_INPUT) is None
    assert loop.wait_s(NO_PAUSE) == 0.0
    loop.take()
    loop.flush()
    loop.fire_timers()
    assert loop.is_finished
    loop.finish()
    with pytest.raises(OSError, match="cannot close"):
        loop.close()
    assert log.taken() == [("flush",), ("finish", 9), ("close",)]
