"""Tasks of one process, from source to sink."""

import threading
import time

import pytest
from expression_harness import call, col, lit

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MAX, CheckpointBarrier, EndOfInput, Watermark, WatermarkStatus
from sqlstream.errors import FailureReason, Span
from sqlstream.expressions import InputRef
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint import ChannelTime, SubtaskState, TaskRestore
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import CheckpointCompleted
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointTaken
from sqlstream.runtime.taskmanager.checkpoints.in_flight import IN_FLIGHT, in_flight_items, in_flight_snapshot
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, WatermarkAssignerSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import SourceStatus
from sqlstream.types import STRING


def written_rows(stage):
    return sorted(row for _, batch in stage.written for row in zip(*batch.to_pydict().values(), strict=True))


def test_every_row_arrives_and_the_committables_come_with_finished(job, stage, make_rows):
    stage.polls = [make_rows(("a", 1), ("b", 2)), make_rows(("c", 3))]
    stage.gate.set()
    running = job()
    running.start()
    (end,) = running.wait(ExecutionState.FINISHED, "sink-0")
    running.wait(ExecutionState.FINISHED, "source-0")
    assert written_rows(stage) == [("a", 1), ("b", 2), ("c", 3)]
    assert [c.committables for c in end.committables] == [
        (Committable("job", LAST_CHECKPOINT_ID, "writer", 0, {"rows": 3}),)
    ]
    assert end.metrics.operators[1]["numRecordsIn"] == 3
    assert end.metrics.task["currentInputWatermark"] == 2**63 - 1
    assert len(running.partitions) == 0


def test_a_task_counts_the_rows_and_bytes_of_its_network_side_and_its_time(job, stage, make_rows):
    batches = [make_rows(("a", 1), ("b", 2)), make_rows(("c", 3))]
    stage.polls = list(batches)
    stage.gate.set()
    running = job()
    running.start()
    (sink,) = running.wait(ExecutionState.FINISHED, "sink-0")
    (source,) = running.wait(ExecutionState.FINISHED, "source-0")
    sent_bytes = sum(batch.get_total_buffer_size() for batch in batches)
    counters = ("numRecordsIn", "numBytesIn", "numRecordsOut", "numBytesOut")
    assert [source.metrics.task[name] for name in counters] == [0, 0, 3, sent_bytes]
    assert [sink.metrics.task[name] for name in counters] == [3, sent_bytes, 0, 0]
    # What a source reads is counted at its operator.
    assert source.metrics.operators[0]["numRecordsIn"] == 3
    for figures in (source.metrics.task, sink.metrics.task):
        assert figures["numRecordsOutPerSecond"] >= figures["numRecordsOut"] / 10
        assert 0 <= figures["accumulateBusyTimeMs"] + figures["accumulateIdleTimeMs"] < 10_000
        assert figures["mailboxQueueSize"] == 0


def test_equal_keys_meet_in_one_subtask(job, stage, make_rows):
    stage.polls = [make_rows(*[(f"k{i % 7}", i) for i in range(100)]) for _ in range(3)]
    stage.gate.set()
    running = job(ExchangeKind.HASH, sinks=3)
    running.start()
    running.wait(ExecutionState.FINISHED, "source-0", "sink-0", "sink-1", "sink-2")
    places: dict[str, set[int]] = {}
    for subtask, batch in stage.written:
        for key in batch.column(0).to_pylist():
            places.setdefault(key, set()).add(subtask)
    assert len(places) == 7
    assert all(len(subtasks) == 1 for subtasks in places.values())
    assert len(written_rows(stage)) == 300


def test_rebalance_goes_round_batch_by_batch(job, stage, make_rows):
    stage.polls = [make_rows(("a", i)) for i in range(6)]
    stage.gate.set()
    running = job(ExchangeKind.REBALANCE, sinks=3)
    running.start()
    running.wait(ExecutionState.FINISHED, "sink-0", "sink-1", "sink-2")
    assert sorted(subtask for subtask, _ in stage.written) == [0, 0, 1, 1, 2, 2]


def test_a_slow_consumer_makes_its_producer_wait_within_the_bound(job, stage, make_rows):
    batch = make_rows(*[("x" * 1000, i) for i in range(100)])
    stage.polls = [batch] * 50
    running = job(capacity_bytes=3 * batch.nbytes)
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    deadline = time.monotonic() + 60
    backpressured = 0
    while backpressured < 900 and time.monotonic() < deadline:
        (source,) = [m for m in running.runner.metrics() if m.execution_id == "source-0"]
        backpressured = source.task["backPressuredTimeMsPerSecond"]
    assert backpressured >= 900
    # Three in the channel and one in the hands of the sink.
    assert source.task["numRecordsOut"] <= 5 * 100
    stage.gate.set()
    running.wait(ExecutionState.FINISHED, "source-0", "sink-0")
    assert len(written_rows(stage)) == 5000


def test_a_task_that_waits_for_room_answers_its_mail(job, stage, make_rows):
    batch = make_rows(*[("x" * 1000, i) for i in range(100)])
    stage.polls = [batch] * 50
    running = job(capacity_bytes=batch.nbytes)
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    task = running.runner._tasks["source-0"]
    deadline = time.monotonic() + 60
    while task._opened.loop.has_room and time.monotonic() < deadline:
        time.sleep(0.001)
    answered = threading.Event()
    task._mailbox.post(answered.set)
    assert answered.wait(60)
    assert not task._opened.loop.has_room
    stage.gate.set()
    running.wait(ExecutionState.FINISHED, "source-0", "sink-0")


def test_cancelling_wakes_readers_writers_and_idle_sources(job, stage, make_rows):
    batch = make_rows(*[("x" * 100, i) for i in range(100)])
    stage.polls = [batch, SourceStatus.NOTHING_YET]
    stage.gate.set()
    running = job(ExchangeKind.HASH, sinks=2, capacity_bytes=65536)
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0", "sink-1")
    for execution in ("source-0", "sink-0", "sink-1"):
        running.runner.cancel(execution)
    running.wait(ExecutionState.CANCELED, "source-0", "sink-0", "sink-1")
    assert sorted(stage.aborted) == [0, 1]
    assert len(running.partitions) == 0


def test_a_source_without_rows_is_asked_again_when_its_next_one_is_due(job, stage):
    stage.polls = [SourceStatus.NOTHING_YET]
    stage.due_ms = 1 << 50
    running = job()
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    deadline = time.monotonic() + 60
    while not stage.polled and time.monotonic() < deadline:
        time.sleep(0.001)
    threading.Event().wait(0.3)
    # Asked every 10 ms it would have been polled thirty times by now.
    assert 1 <= stage.polled <= 3
    running.runner.cancel("source-0")
    running.wait(ExecutionState.CANCELED, "source-0")


def test_rows_that_a_filter_left_do_not_wait_while_there_is_nothing_to_do(job, stage, make_rows):
    stage.polls = [make_rows(("a", 1), ("b", 2)), make_rows(("a", 3), ("b", 4)), SourceStatus.NOTHING_YET]
    stage.gate.set()
    # The clock of these tasks stands still: no timer brings the rows.
    running = job(condition=call("=", col(0, STRING), lit("b", STRING)))
    running.start()
    deadline = time.monotonic() + 60
    while sum(batch.num_rows for _, batch in stage.written) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert written_rows(stage) == [("b", 2), ("b", 4)]


def test_a_failure_names_the_vertex_and_the_position_of_the_operator(job, stage, make_rows):
    stage.polls = [make_rows(("a", 1))]
    stage.fail_at_write = True
    stage.gate.set()
    running = job()
    running.start()
    (failed,) = running.wait(ExecutionState.FAILED, "sink-0")
    assert failed.error.message == "ValueError: cannot be written"
    assert failed.error.vertex == "Sink"
    assert failed.error.span == Span(30, 40)
    assert failed.error.reason is FailureReason.OPERATOR_FAILED
    assert stage.aborted == [0]


def test_a_clean_up_that_fails_does_not_hide_what_failed_first(job, stage, make_rows):
    stage.polls = [make_rows(("a", 1))]
    stage.fail_at_write = stage.fail_at_abort = True
    stage.gate.set()
    running = job()
    running.start()
    (failed,) = running.wait(ExecutionState.FAILED, "sink-0")
    assert failed.error.message == "ValueError: cannot be written"


def test_a_producer_whose_consumer_failed_waits_to_be_cancelled(job, stage, make_rows):
    stage.polls = [
        make_rows(("a", 1))
    ] * 10_000  # more than the channel holds: the producer cannot finish first
    stage.fail_at_write = True
    stage.gate.set()
    running = job(capacity_bytes=65536)
    running.start()
    running.wait(ExecutionState.FAILED, "sink-0")
    running.runner.cancel("source-0")
    running.wait(ExecutionState.CANCELED, "source-0")
    assert [c.state for c in running.states["source-0"]] == [ExecutionState.RUNNING, ExecutionState.CANCELED]


def test_a_checkpoint_goes_from_the_source_to_the_sink_while_rows_flow(job, stage, make_rows, tmp_path):
    stage.polls = [make_rows(("a", 1)), make_rows(("b", 2)), SourceStatus.NOTHING_YET]
    stage.gate.set()
    running = job(condition=call(">=", col(1, sql.BIGINT), lit(2, sql.BIGINT)))
    running.take_checkpoints_in(str(tmp_path))
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    source, sink = running.wait_checkpoint(1, "source-0", "sink-0")
    assert (source.state.splits, source.state.assignment) == ((), -1)
    assert (sink.state.splits, sink.state.assignment) == (None, -1)
    first = sink.committables[0].committables
    assert [c.checkpoint_id for c in first] == [1]
    # Nothing has covered checkpoint 1 yet: what belongs to it goes along with 2.
    _, sink = running.wait_checkpoint(2, "source-0", "sink-0")
    assert [c.checkpoint_id for c in sink.committables[0].committables] == [1, 2]
    running.runner.tell_of_checkpoint(CheckpointCompleted("tm", "sink-0", 2))
    _, sink = running.wait_checkpoint(3, "source-0", "sink-0")
    assert [c.checkpoint_id for c in sink.committables[0].committables] == [3]
    assert written_rows(stage) == [("b", 2)]


def test_a_checkpoint_that_cannot_be_written_is_refused_and_the_task_goes_on(job, stage, make_rows, tmp_path):
    stage.polls = [make_rows(("a", 1)), SourceStatus.NOTHING_YET]
    stage.gate.set()
    running = job()
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    for report in running.wait_checkpoint(1, "source-0", "sink-0"):
        assert report.error.code == "SS9001"
        assert "checkpoint 1 came to a task that has no directory for it" in report.error.message
    assert [c.state for c in running.states["sink-0"]] == [ExecutionState.RUNNING]


def test_a_task_that_has_finished_with_its_checkpoint_has_reported_that_first(
    job, stage, make_rows, tmp_path
):
    stage.polls = [make_rows(("a", 1)), make_rows(("a", 2))]
    running = job()
    running.take_checkpoints_in(str(tmp_path))
    running.start()
    running.wait_checkpoint(1)
    stage.gate.set()
    (sink,) = running.wait(ExecutionState.FINISHED, "sink-0")
    taken = [c.checkpoint_id for s in sink.committables for c in s.committables]
    if ("source-0", 1) in running.checkpoints:
        assert ("sink-0", 1) in running.checkpoints
        assert taken == [1, LAST_CHECKPOINT_ID]
    else:
        assert taken == [LAST_CHECKPOINT_ID]


def test_a_task_that_is_cancelled_tells_what_its_sink_has_prepared(job, stage, make_rows, tmp_path):
    stage.polls = [make_rows(("a", 1)), SourceStatus.NOTHING_YET]
    stage.gate.set()
    running = job()
    running.take_checkpoints_in(str(tmp_path))
    running.start()
    running.wait(ExecutionState.RUNNING, "source-0", "sink-0")
    running.wait_checkpoint(1, "source-0", "sink-0")
    running.runner.cancel("sink-0")
    (sink,) = running.wait(ExecutionState.CANCELED, "sink-0")
    assert [c.checkpoint_id for s in sink.committables for c in s.committables] == [1]


def test_a_savepoint_that_drains_ends_event_time_and_the_reading(relay, tmp_path):
    spec = WatermarkAssignerSpec(1, InputRef(1, sql.BIGINT))
    schema = Schema.of(("k", sql.STRING), ("v", sql.timestamp(3)))
    running = relay(spec, schema)
    seen = []
    running.on_report = seen.append
    barrier = CheckpointBarrier(1, 0, directory=str(tmp_path), is_drain=True)
    for channel in (0, 1):
        running.put(channel, barrier)
    # Consumers get the end of event time with the barrier.
    assert running.take(1) == [barrier]
    deadline = time.monotonic() + 60
    while not any(isinstance(report, CheckpointTaken) for report in seen) and time.monotonic() < deadline:
        time.sleep(0.001)
    (taken,) = [report for report in seen if isinstance(report, CheckpointTaken)]
    reader = StateReader(PrivateFiles(), TaskRestore(1, str(tmp_path), (taken.state,)))
    (saved,) = reader.operator(0, range(128)).shared["watermark_ms"].to_pylist()
    assert saved["watermark_ms"] == WATERMARK_MAX


@pytest.mark.parametrize(("kind", "sinks"), [(ExchangeKind.FORWARD, 1), (ExchangeKind.BROADCAST, 2)])
def test_an_attempt_whose_subtask_had_finished_only_passes_on_the_end(
    job, stage, make_rows, tmp_path, kind, sinks
):
    stage.polls = [make_rows(("a", 1))]
    stage.gate.set()
    running = job(kind, sinks)
    restore = TaskRestore(3, str(tmp_path), (), is_finished=True)
    running.change_descriptors(restore=restore)
    running.start()
    ends = running.wait(ExecutionState.FINISHED, "source-0", *(f"sink-{n}" for n in range(sinks)))
    assert [end.committables for end in ends] == [()] * (1 + sinks)
    assert (stage.written, stage.polled, stage.aborted) == ([], 0, [])


def test_items_in_flight_are_sent_first_and_belong_to_their_parallelism(job, stage, make_rows, tmp_path):
    stage.polls = [make_rows(("b", 2))]
    stage.gate.set()
    path = StateWriter(PrivateFiles(), str(tmp_path))
    items = {(True, 0, 0): [make_rows(("a", 1)), Watermark(5)]}
    (saved,) = path.write("e-1-3", {IN_FLIGHT: in_flight_snapshot(items)})
    state = SubtaskState(in_flight=in_flight_items(items, saved))
    running = job()
    running.change_descriptors("source-0", restore=TaskRestore(3, str(tmp_path), (state,)))
    running.start()
    running.wait(ExecutionState.FINISHED, "source-0", "sink-0")
    assert [row for _, batch in stage.written for row in batch.column(0).to_pylist()] == ["a", "b"]
    rescaled = job()
    rescaled.change_descriptors("source-0", restore=TaskRestore(3, str(tmp_path), (state, SubtaskState())))
    rescaled.start()
    (failed,) = rescaled.wait(ExecutionState.FAILED, "source-0")
    assert failed.error.code == "SS9001"
    assert "goes on from items in flight to 2 subtasks" in failed.error.message


def test_event_time_of_channels_goes_on_with_as_many_subtasks(relay, tmp_path):
    state = SubtaskState(channels=(ChannelTime(20, False), ChannelTime(7, True)))
    restore = TaskRestore(3, str(tmp_path), (state,), is_own=True)
    running = relay(CalcSpec((InputRef(0, sql.STRING), InputRef(1, sql.BIGINT))), restore=restore)
    assert running.take(1) == [Watermark(20)]
    running.put(0, Watermark(30))
    assert running.take(1) == [Watermark(30)]


def test_idleness_passes_through_a_task(relay):
    running = relay(CalcSpec((InputRef(0, sql.STRING), InputRef(1, sql.BIGINT))))
    running.put(0, Watermark(10))
    running.put(1, WatermarkStatus(True))
    assert running.take(1) == [Watermark(10)]
    running.put(0, WatermarkStatus(True))
    assert running.take(1) == [WatermarkStatus(True)]
    running.put(1, WatermarkStatus(False), Watermark(20))
    assert running.take(2) == [WatermarkStatus(False), Watermark(20)]
    running.put(0, EndOfInput())
    running.put(1, WatermarkStatus(True))
    assert running.take(1) == [WatermarkStatus(True)]
    running.put(1, WatermarkStatus(False), Watermark(50), EndOfInput())
    assert running.take(4) == [WatermarkStatus(False), Watermark(50), Watermark(WATERMARK_MAX), EndOfInput()]


def test_a_task_turns_active_before_and_idle_after_the_watermark_that_comes_with_it(relay):
    running = relay(CalcSpec((InputRef(0, sql.STRING), InputRef(1, sql.BIGINT))))
    running.put(0, Watermark(30), WatermarkStatus(True))
    running.put(1, WatermarkStatus(True))
    # With both idle, the furthest of them is the watermark.
    assert running.take(2) == [Watermark(30), WatermarkStatus(True)]


def test_a_task_that_waits_for_input_wakes_for_its_timers(relay):
    schema = Schema.of(("ts", sql.timestamp(3)))
    spec = WatermarkAssignerSpec(0, InputRef(0, sql.timestamp(3)), idle_timeout_ms=30)
    running = relay(spec, schema, lambda: time.monotonic_ns() // 1_000_000)
    assert running.take(1) == [WatermarkStatus(True)]
