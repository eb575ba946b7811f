"""Each finding on a snapshot that is made for it, and that a job which nothing holds back has none."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.client.diagnosis.diagnose import RULES, between, diagnose
from sqlstream.client.diagnosis.finding import Finding, FindingKind, JobSnapshot, Severity
from sqlstream.elements import WATERMARK_MAX
from sqlstream.errors import ErrorInfo
from sqlstream.expressions import InputRef
from sqlstream.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint_statistics import (
    CheckpointCounts,
    CheckpointKind,
    CheckpointRecord,
    CheckpointStatistics,
    CheckpointStatus,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    CheckpointFigures,
    JobDetails,
    JobMetrics,
    LateChannel,
    RestartRecord,
    SubtaskDetails,
    TaskMetrics,
    VertexDetails,
)
from sqlstream.schema import Schema
from sqlstream.specs import LimitSpec, SinkSpec, SourceSpec
from sqlstream.specs.watermark import WatermarkAssignerSpec
from sqlstream.types import timestamp

JOB, SOURCE, GROUP, SINK = "a" * 32, "1" * 32, "2" * 32, "3" * 32
NOW_MS = 1_700_000_000_000
EMPTY = Schema(())
READ = SourceSpec("clicks", "kafka", {}, EMPTY, ())
TIME = WatermarkAssignerSpec(0, InputRef(0, timestamp(3)))


def operator(id: int, name: str, spec: Any, input: int = -1) -> ChainedOperator:
    return ChainedOperator(id, f"uid-{id}", name, spec, input, (), (), EMPTY, ChangelogMode.INSERT_ONLY)


def edge(id: int, source: str, target: str, kind: ExchangeKind = ExchangeKind.HASH) -> JobEdge:
    return JobEdge(id, source, 0, target, 0, Exchange(kind), EMPTY, ChangelogMode.INSERT_ONLY)


def graph(parallelism: int, sink: str = "blackhole") -> JobGraph:
    """clicks → an operator with state → a sink."""
    read = (operator(0, "Source: clicks", READ), operator(1, "Watermarks", TIME, 0))
    vertices = (
        JobVertex(SOURCE, "Source: clicks", read, parallelism, 128),
        JobVertex(GROUP, "GroupAggregate", (operator(2, "GroupAggregate", LimitSpec(1)),), parallelism, 128),
        JobVertex(SINK, "Sink: out", (operator(3, "Sink: out", SinkSpec("out", sink, {}, EMPTY)),), 1, 128),
    )
    return JobGraph(
        JOB, "clicks", vertices, (edge(0, SOURCE, GROUP), edge(1, GROUP, SINK, ExchangeKind.SINGLETON))
    )


AT_EASE = {"busyTimeMsPerSecond": 200, "idleTimeMsPerSecond": 800, "backPressuredTimeMsPerSecond": 0}
HELD = {"busyTimeMsPerSecond": 100, "idleTimeMsPerSecond": 100, "backPressuredTimeMsPerSecond": 800}
WORKS = {"busyTimeMsPerSecond": 990, "idleTimeMsPerSecond": 10, "backPressuredTimeMsPerSecond": 0}
READS = {0: {"numRecordsIn": 5000, "numRecordsInPerSecond": 100.0}, 1: {"currentOutputWatermark": NOW_MS}}


def vertex(
    id: str, name: str, *tasks: dict[str, Any], operators: Any = None, state: Any = None
) -> VertexDetails:
    entered = {"SCHEDULED": NOW_MS - 60_000}
    subtasks = tuple(
        SubtaskDetails(
            index,
            0,
            f"{id[0]}-{index}",
            state or ExecutionState.RUNNING,
            "tm-1#1",
            entered,
            TaskMetrics(f"{id[0]}-{index}", task, (operators or [{}] * len(tasks))[index]),
        )
        for index, task in enumerate(tasks)
    )
    return VertexDetails(id, name, len(tasks), state or ExecutionState.RUNNING, subtasks)


def snapshot(
    source: list[dict[str, Any]] | None = None,
    group: list[dict[str, Any]] | None = None,
    sink: dict[str, Any] | None = None,
    *,
    reads: list[Any] | None = None,
    checkpoints: CheckpointStatistics | None = None,
    total: dict[str, Any] | None = None,
    plan: JobGraph | None = None,
    **fields: Any,
) -> JobSnapshot:
    group = group or [AT_EASE]
    source = source or [AT_EASE] * len(group)
    vertices = (
        vertex(SOURCE, "Source: clicks", *source, operators=reads or [READS] * len(source)),
        vertex(GROUP, "GroupAggregate", *group),
        vertex(SINK, "Sink: out", sink or AT_EASE),
    )
    details = JobDetails(JOB, "clicks", JobStatus.RUNNING, NOW_MS - 100_000, -1, {}, vertices)
    return JobSnapshot(
        replace(details, **fields),
        plan or graph(len(group)),
        checkpoints or CheckpointStatistics(JOB),
        JobMetrics(JOB, JobStatus.RUNNING, total or {}, {}),
        NOW_MS,
    )


def only(given: JobSnapshot, kind: FindingKind) -> Finding:
    """The one finding that there is."""
    (found,) = diagnose(given).findings
    assert found.kind is kind
    return found


def test_a_job_that_nothing_holds_back_has_no_finding_and_says_what_is_busiest() -> None:
    found = diagnose(snapshot([AT_EASE] * 2, [AT_EASE, {**AT_EASE, "busyTimeMsPerSecond": 400}]))
    assert found.findings == ()
    assert found.text == (
        f'job {JOB} "clicks" is RUNNING: nothing holds it back\n'
        '  the busiest vertex is "GroupAggregate", for 40 % of the time'
    )


def test_backpressure_leads_to_the_vertex_behind_all_that_wait() -> None:
    found = only(snapshot([HELD], [HELD], WORKS), FindingKind.BOTTLENECK)
    assert (found.severity, found.vertex) == (Severity.HIGH, SINK)
    assert found.said == '"Sink: out" does not keep up, and holds back "Source: clicks", "GroupAggregate"'
    assert found.evidence["busy"] == "99 % of the time, subtask 1 of 1"
    assert found.evidence['"GroupAggregate" waits'] == "80 %"
    assert found.advice[0] == f"sqlstream rescale {JOB} 2"
    assert found.advice[1] == 'look at what the sink "out" writes to: its waits count as busy'


@pytest.mark.timeout(60)
def test_each_vertex_that_waits_is_looked_at_once_however_many_ways_lead_to_it() -> None:
    ids = [f"{number:032x}" for number in range(100)]
    vertices = tuple(JobVertex(id, id, (operator(0, id, LimitSpec(1)),), 1, 128) for id in ids)
    ways = [*itertools.pairwise(ids), *zip(ids, ids[2:], strict=False)]
    plan = JobGraph(JOB, "ladder", vertices, tuple(edge(n, *way) for n, way in enumerate(ways)))
    waiting = tuple(vertex(id, id, HELD) for id in ids[:-1])
    found = only(
        snapshot(plan=plan, vertices=(*waiting, vertex(ids[-1], "last", WORKS))), FindingKind.BOTTLENECK
    )
    assert found.vertex == ids[-1]


def test_a_vertex_that_is_busy_and_holds_nobody_back_is_worth_knowing_alone() -> None:
    found = only(snapshot([WORKS]), FindingKind.BOTTLENECK)
    assert (found.severity, found.vertex) == (Severity.LOW, SOURCE)
    assert found.said == '"Source: clicks" is busy: it reads as fast as it can'
    assert found.evidence["operators"] == "Source: clicks, Watermarks"


def test_the_busiest_subtask_is_named_by_its_own_number_although_others_have_not_reported() -> None:
    given = snapshot([AT_EASE, WORKS])
    first, *others = given.details.vertices
    silent = replace(first.subtasks[0], metrics=None)
    vertices = (replace(first, subtasks=(silent, *first.subtasks[1:])), *others)
    given = dataclasses.replace(given, details=replace(given.details, vertices=vertices))
    found = only(given, FindingKind.BOTTLENECK)
    assert found.evidence["busy"] == "99 % of the time, subtask 2 of 2"


def test_the_costliest_operator_is_named_where_that_is_measured() -> None:
    given = snapshot([WORKS])
    spent = {0: {"cpuTimeNs": 1}, 1: {"cpuTimeNs": 3}}
    given = dataclasses.replace(given, metrics=JobMetrics(JOB, JobStatus.RUNNING, {}, spent))
    assert (
        only(given, FindingKind.BOTTLENECK).evidence["costliest operator"]
        == "Watermarks, 75% of the processor time"
    )


def test_a_client_that_does_not_fetch_is_told_from_a_vertex_that_does_not_keep_up() -> None:
    given = snapshot([AT_EASE], [AT_EASE], HELD, plan=graph(1, "collect"))
    found = only(given, FindingKind.CLIENT)
    assert found.evidence == {"waits for the client": "80 %"}


def rows(count: int, busy_ms: int, state: int = 0) -> dict[str, Any]:
    figures = {"numRecordsIn": count, "numRecordsInPerSecond": count / 10, "busyTimeMsPerSecond": busy_ms}
    return {**AT_EASE, **figures, "stateBytes": state}


def test_keys_that_are_spread_unevenly_are_told_with_the_key_groups_of_the_subtask() -> None:
    group = [rows(100, 10, 1024), rows(9000, 900, 4096), rows(100, 10), rows(100, 10)]
    found = diagnose(snapshot(group=group)).findings
    assert [(f.kind, f.severity) for f in found] == [
        (FindingKind.SKEW, Severity.HIGH),
        (FindingKind.BOTTLENECK, Severity.LOW),
    ]
    assert found[0].evidence == {
        "rows": "97% in subtask 2 of 4, 25% would be even",
        "busy": "1 %, 90 %, 1 %, 1 %",
        "state": "1.0 KiB, 4.0 KiB, 0 B, 0 B",
        "key groups": "32 to 63 of 128",
    }
    # More subtasks do not help against one key.
    assert found[1].advice == ("spread its rows first: see the finding on skew",)


def test_few_rows_say_nothing_of_how_keys_are_spread() -> None:
    assert diagnose(snapshot(group=[rows(900, 10), rows(1, 10)])).findings == ()


def test_subtasks_of_a_source_without_partitions_are_counted() -> None:
    source = [{**AT_EASE, "numRecordsOut": 8000}, {**AT_EASE, "numRecordsOut": 0}]
    found = only(snapshot(source, [AT_EASE] * 2), FindingKind.SKEW)
    assert (found.severity, found.vertex) == (Severity.LOW, SOURCE)
    assert found.evidence["subtasks without rows"] == 1
    assert found.advice[1] == f"sqlstream rescale {JOB} 1"


def test_a_reader_without_rows_holds_event_time_until_it_counts_as_idle() -> None:
    silent: dict[int, Any] = {0: {"numRecordsIn": 0}, 1: {}}
    found = only(snapshot(group=[AT_EASE] * 2, reads=[READS, silent]), FindingKind.WATERMARK)
    assert (found.severity, found.vertex) == (Severity.HIGH, SOURCE)
    assert found.said.startswith('table "clicks", subtask 2 of 2, holds event time back')
    assert found.evidence == {"rows read": 0, "furthest watermark": "2023-11-14 22:13:20"}
    assert "table.exec.source.idle-timeout" in found.advice[0]
    idle = {**silent, 1: {"isIdle": 1}}
    assert diagnose(snapshot(group=[AT_EASE] * 2, reads=[READS, idle])).findings == ()
    ended = {**silent, 1: {"currentOutputWatermark": WATERMARK_MAX}}
    assert diagnose(snapshot(group=[AT_EASE] * 2, reads=[READS, ended])).findings == ()


def test_a_partition_without_rows_is_named() -> None:
    reads = {
        0: {"numRecordsIn": 5000, "split.clicks-0.pendingRecords": 0, "split.clicks-1.pendingRecords": 0}
    }
    reads[0]["split.clicks-0.watermark.currentWatermark"] = NOW_MS
    found = only(snapshot(reads=[reads]), FindingKind.WATERMARK)
    assert found.evidence["partitions without a watermark"] == "clicks-1"
    assert "a partition without rows" in found.said


def test_nobody_waits_for_the_event_time_of_a_job_that_only_hands_rows_on() -> None:
    plan = graph(1)
    (calm,) = (v for v in plan.vertices if v.id == GROUP)
    calm = replace(calm, operators=(operator(2, "Sink: other", SinkSpec("other", "print", {}, EMPTY)),))
    plan = replace(plan, vertices=(plan.vertices[0], calm, plan.vertices[2]))
    silent: dict[int, Any] = {0: {"numRecordsIn": 10}, 1: {}}
    assert diagnose(snapshot(reads=[silent], plan=plan)).findings == ()


def test_a_reader_that_is_far_behind_another_is_told_with_the_distance() -> None:
    late = {0: READS[0], 1: {"currentOutputWatermark": NOW_MS - 3_600_000}}
    late[0] = {**READS[0], "split.clicks-7.watermark.currentWatermark": NOW_MS - 3_600_000}
    found = only(snapshot(group=[AT_EASE] * 2, reads=[READS, late]), FindingKind.WATERMARK)
    assert (found.evidence["behind by"], found.evidence["furthest behind"]) == ("1 h 0 min", "clicks-7")
    assert "scan.watermark.alignment.group" in found.advice[0]


def test_what_is_left_to_read_counts_from_ten_seconds_of_reading_on() -> None:
    def reading(pending: int) -> list[Any]:
        split = {"split.clicks-0.pendingRecords": pending - 1, "split.clicks-1.pendingRecords": 1}
        return [{**READS, 0: {**READS[0], "pendingRecords": pending, **split}}]

    assert diagnose(snapshot(reads=reading(999))).findings == ()
    found = only(snapshot(reads=reading(6_000)), FindingKind.SOURCE_LAG)
    assert found.severity is Severity.HIGH
    assert found.evidence == {
        "rows read": "100 per second",
        "rows left to read": 6_000,
        "time to read them": "1 min",
        "most left in": "clicks-0, 5,999",
    }


def test_a_watermark_behind_the_clock_is_worth_knowing_unless_the_data_is_old() -> None:
    def lagging(lag_ms: int) -> JobSnapshot:
        return snapshot(reads=[{**READS, 0: {**READS[0], "watermarkLag": lag_ms}}])

    found = only(lagging(120_000), FindingKind.SOURCE_LAG)
    assert (found.severity, found.evidence["watermark behind the clock"]) == (Severity.LOW, "2 min")
    assert diagnose(lagging(5_000)).findings == ()
    assert diagnose(lagging(365 * 86_400_000)).findings == ()


def record(id: int, took_ms: int, *figures: CheckpointFigures, at_ms: int = 0) -> CheckpointRecord:
    begun_ms = (at_ms or NOW_MS) - took_ms
    subtasks = tuple(SubtaskCheckpoint(n, begun_ms + took_ms, f) for n, f in enumerate(figures))
    group = VertexCheckpoint(GROUP, "GroupAggregate", len(figures), subtasks)
    source = VertexCheckpoint(SOURCE, "Source: clicks", 1, (SubtaskCheckpoint(0, begun_ms + 1),))
    kind, status = CheckpointKind.CHECKPOINT, CheckpointStatus.COMPLETED
    return CheckpointRecord(id, kind, status, begun_ms, begun_ms + took_ms, (source, group), f"/c/chk-{id}")


def statistics(*history: CheckpointRecord, **fields: Any) -> CheckpointStatistics:
    return CheckpointStatistics(
        JOB, 10_000, CheckpointCounts(total=9, failed=1), history[0], history=history, **fields
    )


@pytest.mark.parametrize(
    ("figures", "slowest", "advised"),
    [
        (CheckpointFigures(alignment_ms=7_000, async_ms=100), "alignment", "unaligned.enabled"),
        (CheckpointFigures(async_ms=7_000, written_bytes=2**30), "writing beside its work", "the store of"),
        (CheckpointFigures(sync_ms=7_000), "no input taken", "execution.batch-rows"),
        (CheckpointFigures(), "until its first barrier", "unaligned.enabled"),
    ],
)
def test_a_slow_checkpoint_is_told_with_its_last_task_and_what_that_did(
    figures: CheckpointFigures, slowest: str, advised: str
) -> None:
    found = only(snapshot(checkpoints=statistics(record(7, 8_000, figures))), FindingKind.CHECKPOINT_SLOW)
    assert (found.severity, found.said) == (Severity.LOW, "checkpoint 7 took 8.0 s")
    assert found.evidence["last task"] == "GroupAggregate (1/1)"
    assert found.evidence[slowest] in ("7.0 s", "8.0 s")
    assert advised in found.advice[0]


def test_the_producer_of_the_latest_barrier_is_named() -> None:
    late = CheckpointFigures(alignment_ms=7_900, late_channels=(LateChannel(SOURCE, 0, 7_900),))
    found = only(snapshot(checkpoints=statistics(record(7, 8_000, late))), FindingKind.CHECKPOINT_SLOW)
    assert found.evidence["latest barrier"] == "Source: clicks (1/1), 7.9 s behind the first"


def test_checkpoints_of_half_the_interval_and_of_less_than_a_second_are_in_order() -> None:
    assert diagnose(snapshot(checkpoints=statistics(record(7, 4_900, CheckpointFigures())))).findings == ()
    often = replace(statistics(record(7, 900, CheckpointFigures())), interval_ms=100)
    assert diagnose(snapshot(checkpoints=often)).findings == ()


def test_a_checkpoint_in_progress_names_what_it_waits_for() -> None:
    waits = record(8, 20_000, CheckpointFigures())
    subtasks = (SubtaskCheckpoint(0),)
    waits = replace(
        waits,
        status=CheckpointStatus.IN_PROGRESS,
        ended_ms=-1,
        vertices=(replace(waits.vertices[1], subtasks=subtasks),),
    )
    given = replace(statistics(record(7, 10, CheckpointFigures())), history=(waits,))
    found = only(snapshot(checkpoints=given), FindingKind.CHECKPOINT_SLOW)
    assert (found.said, found.evidence["waits for"]) == (
        "checkpoint 8 is in progress for 20.0 s",
        "GroupAggregate (1/1)",
    )


def test_a_failed_checkpoint_counts_until_a_newer_one_is_completed() -> None:
    failed = replace(
        record(8, 600, CheckpointFigures()),
        status=CheckpointStatus.FAILED,
        error=ErrorInfo("SS6201", "not acknowledged in time"),
        failed_task="GroupAggregate (1/1)",
    )
    older, newer = record(7, 10, CheckpointFigures()), record(9, 10, CheckpointFigures())
    found = only(snapshot(checkpoints=statistics(older, latest_failed=failed)), FindingKind.CHECKPOINT_FAILED)
    assert found.said == "the newest checkpoint has failed: GroupAggregate (1/1): not acknowledged in time"
    assert found.evidence == {"checkpoint": 8, "failed of all": "1 of 9", "code": "SS6201"}
    assert diagnose(snapshot(checkpoints=statistics(newer, latest_failed=failed))).findings == ()


def test_a_full_disk_stands_before_what_waits_since_then() -> None:
    """A checkpoint that came too late is the effect of what waits, and stands behind it."""
    full = ErrorInfo("SS5001", "could not write: no space left on device", hint="free space on the disk")
    kinds = {}
    for error in (full, ErrorInfo("SS6201", "not acknowledged in time")):
        failed = replace(record(8, 600, CheckpointFigures()), status=CheckpointStatus.FAILED, error=error)
        older = statistics(record(7, 10, CheckpointFigures()), latest_failed=failed)
        restarts = (RestartRecord(NOW_MS - 30_000, full),)
        found = diagnose(snapshot([HELD], [HELD], WORKS, checkpoints=older, restarts=restarts)).findings
        kinds[error.code] = [f.kind for f in found if f.severity is Severity.HIGH]
        assert full.hint in found[0].advice
    failed, restarted, waits = FindingKind.CHECKPOINT_FAILED, FindingKind.RESTARTS, FindingKind.BOTTLENECK
    assert kinds == {"SS5001": [failed, restarted, waits], "SS6201": [restarted, waits, failed]}


def test_state_that_grows_from_checkpoint_to_checkpoint_names_the_vertex() -> None:
    def saved(id: int, size: int) -> CheckpointRecord:
        return record(id, 10, CheckpointFigures(state_bytes=size), at_ms=NOW_MS + id * 60_000)

    growing = statistics(saved(3, 40 << 20), saved(2, 30 << 20), saved(1, 20 << 20))
    found = only(snapshot(checkpoints=growing), FindingKind.STATE_GROWTH)
    assert found.said == 'the state grows, most in "GroupAggregate"'
    assert found.evidence == {
        "state": "20.0 MiB, 2 min later 40.0 MiB",
        "growth per hour": "600.0 MiB",
        "of that vertex": "20.0 MiB",
    }
    steady = statistics(saved(3, 22 << 20), saved(2, 20 << 20), saved(1, 20 << 20))
    assert diagnose(snapshot(checkpoints=steady)).findings == ()


def test_restarts_are_told_with_their_causes_and_count_as_severe_while_they_are_recent() -> None:
    lost, data = ErrorInfo("SS6006", "the TaskManager is lost"), ErrorInfo("SS5003", "division by zero")
    restarts = (
        RestartRecord(NOW_MS - 30_000, lost, "Sink: out (1/1)", 3),
        RestartRecord(NOW_MS - 90_000, data),
        RestartRecord(NOW_MS - 95_000, lost),
    )
    found = only(snapshot(restarts=restarts, total={"numRestarts": 5}), FindingKind.RESTARTS)
    assert (found.severity, found.said) == (
        Severity.HIGH,
        "the job was restarted after: the TaskManager is lost",
    )
    assert found.evidence == {
        "restarts": 5,
        "the last ones by cause": "SS6006 2×, SS5003 1×",
        "last failure": "30.0 s ago",
        "of": "Sink: out (1/1)",
        "code": "SS6006",
    }
    long_ago = (replace(restarts[0], failed_ms=NOW_MS - 3_600_000),)
    assert only(snapshot(restarts=long_ago), FindingKind.RESTARTS).severity is Severity.LOW


def test_a_failed_job_has_its_error_first() -> None:
    error = ErrorInfo("SS5003", "division by zero", hint="guard the divisor")
    found = only(snapshot(error=error, status=JobStatus.FAILED), FindingKind.FAILURE)
    assert found.advice == ("guard the divisor", "sqlstream explain-error SS5003")


@pytest.mark.parametrize("status", ["CREATED", "RUNNING", "RESTARTING", "RECONCILING"])
def test_tasks_that_wait_for_slots_are_counted_with_those_that_are_free(status: str) -> None:
    waiting = vertex(SOURCE, "Source: clicks", {}, {}, state=ExecutionState.SCHEDULED)
    found = only(snapshot(vertices=(waiting,), status=JobStatus(status)), FindingKind.WAITS_FOR_SLOTS)
    assert found.evidence == {
        "tasks that wait": 2,
        "slots that they need": 2,
        "free slots": 0,
        "for": "1 min",
    }


def test_rows_that_were_lost_are_told_with_the_hint_of_their_kind() -> None:
    found = only(snapshot(total={"numLateRecordsDropped": 12}), FindingKind.ROWS_LOST)
    assert (found.said, found.severity) == ("12 late rows were dropped", Severity.LOW)
    assert "WATERMARK FOR ts" in found.advice[0]


def test_shares_of_time_are_those_between_two_readings_of_the_same_attempt() -> None:
    def at(busy: int, idle: int) -> JobDetails:
        spent = {
            "accumulateBusyTimeMs": busy,
            "accumulateIdleTimeMs": idle,
            "accumulateBackPressuredTimeMs": 0,
        }
        return snapshot([{**HELD, **spent}]).details

    found = between(at(1000, 9000), at(1750, 9250)).vertices[0].subtasks[0].metrics
    assert found is not None
    assert (found.task["busyTimeMsPerSecond"], found.task["backPressuredTimeMsPerSecond"]) == (750, 0)
    # Without time in between, the last report has to do.
    same = between(at(1000, 9000), at(1000, 9000)).vertices[0].subtasks[0].metrics
    assert same is not None
    assert same.task["backPressuredTimeMsPerSecond"] == 800


def test_a_diagnosis_is_json_and_its_text_has_every_finding() -> None:
    found = diagnose(snapshot([HELD], [HELD], WORKS, total={"numLateRecordsDropped": 1}))
    data = msgspec.json.decode(msgspec.json.encode(found))
    assert (data["jid"], data["status"], [f["kind"] for f in data["findings"]]) == (
        JOB,
        "RUNNING",
        ["BOTTLENECK", "ROWS_LOST"],
    )
    assert found.text.splitlines()[0] == f'job {JOB} "clicks" is RUNNING: 2 findings'
    assert all(f.said in found.text for f in found.findings)


def test_no_rule_fails_for_a_job_that_has_reported_nothing() -> None:
    bare = JobDetails(JOB, "clicks", JobStatus.CREATED, NOW_MS, -1, {}, ())
    given = dataclasses.replace(snapshot(), details=bare)
    assert [finding for rule in RULES for finding in rule(given)] == []
