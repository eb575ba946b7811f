"""What a task does with each thing that it is given, one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.kernels.key_hashes import KeyHashes, known_hashes
from runtime.net.channels import Channel
from runtime.taskmanager.input_gate import InputGate
from runtime.taskmanager.mailbox import Mailbox
from runtime.taskmanager.metrics import TaskTimes
from runtime.taskmanager.operator_chain import ChainPosition
from runtime.taskmanager.result_partition import ResultPartition, splitter
from runtime.taskmanager.task_loop import (
    NO_PAUSE,
    UNTIL_INPUT,
    UNTIL_ROOM,
    NetworkInput,
    SourceInput,
    TaskLoop,
    poll_pause_s,
)
from runtime.taskmanager.timers import ProcessingTimers
from sqlstream.elements import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    CheckpointBarrier,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from sqlstream.errors import InternalError
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.spi.connector import SourceStatus

ROWS = pa.record_batch({"v": [1, 2, 3]})


class Log:
    """The first operator of a chain, the chain, and the output of a source: each call is noted."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.head = self
        self.timers = ProcessingTimers(lambda: 1_000)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, *arguments))

    def taken(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls


class Reader:
    """A source whose answers are given."""

    def __init__(self, *answers: Any, due_ms: int | None = None) -> None:
        self.answers = list(answers)
        self.due_ms = due_ms
        self.is_closed = False

    def poll(self) -> Any:
        return self.answers.pop(0)

    def next_poll_ms(self) -> int | None:
        return self.due_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self.is_closed = True


class TimedReader(Reader):
    """One that makes watermarks."""

    def watermark_ms(self) -> int:
        return 77


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
    made: Any = SourceInput("chained", reader, log, counted.append, position, lambda: 1_000)  # type: ignore[arg-type]
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


def network(*channels: int) -> tuple[NetworkInput, InputGate, Log, Mailbox]:
    """The inputs have so many channels."""
    mailbox, log = Mailbox(), Log()
    made = tuple(tuple(Channel(1 << 20) for _ in range(count)) for count in channels)
    gate = InputGate(tuple(range(len(channels))), made, mailbox)
    return NetworkInput(gate, mailbox.take_readable, log, "task"), gate, log, mailbox  # type: ignore[arg-type]


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


def test_a_barrier_is_our_bug() -> None:
    made, gate, _, _ = network(1)
    with pytest.raises(
        InternalError, match="barrier of checkpoint 3 came to a task that takes no checkpoints"
    ):
        made.on_item(gate.channels[0], CheckpointBarrier(3, 1_000))


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
    made: Any = SourceInput("c", Reader(ROWS, ROWS), log, lambda n: None, ChainPosition(), lambda: 7)  # type: ignore[arg-type]
    loop = TaskLoop(made, log, partitions, lambda: 9)  # type: ignore[arg-type]
    assert loop.take() is NO_PAUSE
    outputs[1].put(ROWS, 10)
    log.taken()
    assert (loop.has_room, loop.take(), log.taken()) == (False, UNTIL_ROOM, [("hold_back", 9)])
    assert loop.wait_s(UNTIL_ROOM) is None
    outputs[1].take()
    assert (loop.has_room, loop.take(), log.taken()) == (True, NO_PAUSE, [("emit", ROWS)])


def test_the_loop_wakes_consumers_before_it_waits_and_every_now_and_then() -> None:
    log, now_ms = Log(), [1_000]
    output = Channel(1 << 20, wake_bytes=1 << 20)
    partition = ResultPartition((output,), splitter(Exchange(ExchangeKind.FORWARD), 1, 0, 128), TaskTimes())
    calls: list[str] = []
    output.listen(lambda: calls.append("readable"))
    made: Any = SourceInput(
        "c",
        Reader(*[ROWS] * 4),
        log,
        lambda n: None,
        ChainPosition(),
        lambda: 7,  # type: ignore[arg-type]
    )
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

    source: Any = SourceInput("c", Broken(SourceStatus.END), log, lambda n: None, ChainPosition(), lambda: 7)  # type: ignore[arg-type]
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
