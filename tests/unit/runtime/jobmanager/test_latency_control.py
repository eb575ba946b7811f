"""`latency.target`: what a job begins with, how the size of batches follows what is measured, and what sources are told."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable

import pytest
from checkpointed_master import Master
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.latency_choice import BATCH_ROWS_MAX, BATCH_ROWS_MIN, choices, exchanges, hold_ms
from sqlstream.messages.latency import LatencyMode
from sqlstream.messages.rpc import LimitBatches, TaskMetrics
from sqlstream.runtime.jobmanager import latency_control
from sqlstream.runtime.jobmanager.events import MetricsReceived, Noted
from sqlstream.runtime.jobmanager.job_details import describe_job
from sqlstream.runtime.jobmanager.latency_sizing import (
    CALM,
    PATIENCE,
    PATIENCE_MAX,
    SUSTAINED,
    Measured,
    Sizing,
    resize,
)
from sqlstream.specs import SinkSpec, SourceSpec

TARGET_MS = 100
Model = Callable[[int], float]


def follow(
    model: Model, steps: int, first: int = 4096, arrives: int = 1 << 30, idle: float = 0.5
) -> list[Sizing]:
    """The sizings of a job whose 99th percentile is that of the model; `arrives`: no batch has more rows."""
    sizing, passed = Sizing(first, first), []
    for _ in range(steps):
        sizing = resize(sizing, Measured(model(sizing.rows), min(sizing.rows, arrives), idle), TARGET_MS)
        passed.append(sizing)
    return passed


def changes(passed: list[Sizing]) -> int:
    return sum(a.rows != b.rows for a, b in itertools.pairwise(passed))


# --- the size of batches


@pytest.mark.parametrize("us_a_row", [0.5, 2.0, 5.0, 20.0, 80.0], ids=str)
def test_the_size_comes_to_rest_below_the_largest_that_keeps_the_target(us_a_row: float) -> None:
    def p99_ms(rows: int) -> float:
        return 5.0 + us_a_row * rows / 1000

    passed = follow(p99_ms, 400)
    largest = min(BATCH_ROWS_MAX, (TARGET_MS - 5.0) * 1000 / us_a_row)
    assert all(largest / 4 <= s.rows <= largest for s in passed[12:] if s.bound or s.rows == BATCH_ROWS_MAX)
    assert all(p99_ms(s.rows) <= TARGET_MS for s in passed[-10:])
    # A size that was too large is tried again, more and more seldom.
    assert changes(passed[12:]) <= 6


@pytest.mark.parametrize("seed", range(20))
def test_noise_makes_it_swing_neither_far_nor_often(seed: int) -> None:
    chance = random.Random(seed)
    passed = follow(lambda rows: (5.0 + 8.0 * rows / 1000) * chance.uniform(0.7, 1.4), 400)
    assert changes(passed[20:]) <= 20
    sizes = {s.rows for s in passed[20:]}
    assert max(sizes) <= 8 * min(sizes)
    kept = sum(5.0 + 8.0 * s.rows / 1000 <= TARGET_MS for s in passed[20:])
    assert kept >= 0.9 * len(passed[20:])


def test_a_latency_that_does_not_follow_the_size_leaves_the_size_of_the_plan() -> None:
    passed = follow(lambda rows: 300.0, 200)
    assert passed[20].mode is LatencyMode.PLAN
    assert passed[20].rows == 4096
    assert "it is not for their size" in next(s.reason for s in passed if s.mode is LatencyMode.PLAN)
    assert changes(passed[6:PATIENCE]) == 0
    assert sum(s.rows == 4096 for s in passed) >= 0.8 * len(passed)


def test_a_job_that_keeps_it_with_no_size_gets_the_one_of_the_highest_throughput() -> None:
    for idle in (0.0, 0.5):
        passed = follow(lambda rows: 150.0 + rows / 5, 30, idle=idle)
        assert (passed[-1].rows, passed[-1].mode) == (BATCH_ROWS_MAX, LatencyMode.THROUGHPUT)
        assert min(s.rows for s in passed) == BATCH_ROWS_MIN
        said = next(s.reason for s in passed if s.mode is LatencyMode.THROUGHPUT)
        assert said == (
            "the target of 100 ms cannot be kept at this rate: 99 % of markers take 201 ms of 100 ms"
            " with batches of 256 rows"
        )


def test_one_measurement_above_the_target_changes_nothing() -> None:
    latencies = [40.0, 900.0, 40.0, 900.0, 40.0] * 10
    assert changes(follow(lambda rows: latencies.pop() if rows >= 4096 else 40.0, 50, first=65_536)) == 0


def test_batches_that_are_not_full_keep_their_size() -> None:
    for p99_ms in (3.0, 500.0):
        passed = follow(lambda rows, p99_ms=p99_ms: p99_ms, 50, arrives=700)  # type: ignore[misc]
        assert changes(passed) == 0
        assert "700 rows" in passed[-1].reason


def test_a_load_that_goes_lets_batches_grow_again() -> None:
    times = iter([True] * 40 + [False] * 160)
    passed = follow(lambda rows: (40.0 if next(times) else 0.5) * rows / 1000, 200)
    assert passed[39].rows < 4096
    assert passed[-1].rows == BATCH_ROWS_MAX


# --- a target that cannot be kept


def modes(passed: list[Sizing]) -> list[tuple[LatencyMode, int]]:
    """Each mode in turn, and for how many measurements."""
    return [(mode, len(list(run))) for mode, run in itertools.groupby(s.mode for s in passed)]


def replay(measured: Iterable[Measured], sizing: Sizing) -> list[Sizing]:
    passed = []
    for each in measured:
        sizing = resize(sizing, each, TARGET_MS)
        passed.append(sizing)
    return passed


def loaded(
    steps: int, rate: Callable[[int], float], sizing: Sizing, backlog: float = 0.0
) -> tuple[list[Sizing], float]:
    """A job that takes more rows a millisecond the larger its batches are, and how many wait at its end. `rate`: the rows that
    come in a millisecond, by measurement; each lasts for a second."""
    passed = []
    for step in range(steps):
        is_bounded = sizing.mode is not LatencyMode.THROUGHPUT
        takes = sizing.rows / (2 + sizing.rows / (400 if is_bounded else 1_000))
        left = max(0.0, backlog + 1_000 * (rate(step) - takes))
        idle = 0.0 if left else 1 - rate(step) / takes
        p99_ms = sizing.rows / takes if is_bounded else 3_000.0 if left else 200.0
        seen = sizing.rows if left else min(sizing.rows, int(100 * rate(step)))
        sizing = resize(sizing, Measured(p99_ms, seen, idle, left / takes), TARGET_MS)
        backlog = left
        passed.append(sizing)
    return passed, backlog


def test_a_job_that_does_not_catch_up_has_the_settings_of_the_highest_throughput_until_it_has() -> None:
    passed, backlog = loaded(200, lambda step: 2_000.0 if step < 40 else 100.0, Sizing(4096, 4096))
    assert [mode for mode, _ in modes(passed)] == [
        LatencyMode.TARGET,
        LatencyMode.THROUGHPUT,
        LatencyMode.TARGET,
    ]
    assert modes(passed)[0][1] <= 5
    assert "what the sources have not read takes" in next(
        s.reason for s in passed if s.mode is not s.mode.TARGET
    )
    assert backlog == 0


def test_a_rate_that_only_the_highest_throughput_keeps_up_with_is_tried_more_and_more_seldom() -> None:
    passed, _ = loaded(3_000, lambda step: 500.0, Sizing(4096, 4096))
    spans = [count for mode, count in modes(passed) if mode is LatencyMode.THROUGHPUT]
    assert len(spans) <= 14
    assert spans[:-1] == sorted(spans[:-1])
    assert sum(spans) >= 0.9 * len(passed)


def test_a_target_that_sources_keep_up_with_is_never_given_up() -> None:
    passed, _ = loaded(500, lambda step: 100.0, Sizing(4096, 4096))
    assert modes(passed) == [(LatencyMode.TARGET, 500)]


def test_a_size_that_is_set_stays_and_waits_between_tasks_go() -> None:
    behind = Measured(150.0, 4096, 0.0)
    passed = replay([behind] * 10 + [Measured(50.0, 4096, 0.5)] * 10, Sizing(4096, 4096, is_fixed=True))
    assert {s.rows for s in passed} == {4096}
    assert modes(passed) == [(LatencyMode.TARGET, 3), (LatencyMode.THROUGHPUT, 9), (LatencyMode.TARGET, 8)]


MEASURED = st.builds(
    Measured,
    p99_ms=st.sampled_from([3.0, 60.0, 99.0, 101.0, 180.0, 5_000.0]),
    largest=st.sampled_from([0, 100, 4096, BATCH_ROWS_MAX]),
    idle=st.sampled_from([0.0, 0.04, 0.07, 0.2, 1.0]),
    backlog_ms=st.sampled_from([0.0, 50.0, 200.0, 60_000.0]),
)
RUNS = st.lists(st.tuples(MEASURED, st.integers(1, 60)), max_size=60).map(
    lambda runs: [measured for measured, count in runs for _ in range(count)]
)


@given(measured=RUNS, is_fixed=st.booleans())
def test_whatever_is_measured_modes_change_seldom_and_only_for_what_was_seen(
    measured: list[Measured], is_fixed: bool
) -> None:
    passed = replay(measured, Sizing(4096, 4096, is_fixed=is_fixed))
    before = Sizing(4096, 4096)
    for position, (seen, after) in enumerate(zip(measured, passed, strict=True)):
        assert BATCH_ROWS_MIN <= after.rows <= BATCH_ROWS_MAX
        assert not is_fixed or after.rows == 4096
        recent = measured[max(0, position + 1 - SUSTAINED) : position + 1]
        if after.mode is LatencyMode.THROUGHPUT is not before.mode:
            # Several measurements in a row were beyond the target.
            assert len(recent) == SUSTAINED
            assert all(m.p99_ms > TARGET_MS or m.backlog_ms > TARGET_MS for m in recent)
            assert after.rows == (4096 if is_fixed else BATCH_ROWS_MAX)
            assert after.reason.startswith("the target of 100 ms cannot be kept at this rate: ")
        if before.mode is LatencyMode.THROUGHPUT is not after.mode:
            calm = measured[position + 1 - before.calm_wanted : position + 1]
            assert len(calm) >= CALM
            assert all(m.idle >= 0.1 and m.backlog_ms <= TARGET_MS for m in calm)
        if after.mode is LatencyMode.THROUGHPUT:
            assert after.reason.startswith("the target of 100 ms cannot be kept at this rate: ")
        assert after.reason
        assert f"{seen.p99_ms:.0f} ms" in after.reason
        before = after
    given_up = [count for mode, count in modes(passed) if mode is LatencyMode.THROUGHPUT]
    # Either it lasts long between two times, or the wait has doubled.
    assert len(given_up) <= 2 + len(measured) / (PATIENCE + CALM) + math.log2(PATIENCE_MAX / CALM)


# --- what a job begins with


DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""


def planned(parallelism: int = 2, source: str = "s", **settings: str) -> JobGraph:
    statement = f"INSERT INTO console SELECT k, count(*) FROM {source} GROUP BY k"
    (plan,) = compile_script(DDL + statement, settings | {"parallelism.default": str(parallelism)})
    return replace(plan.job_graph, job_id="j1")


TARGET = {"latency.target": "100 ms"}
ALIGNMENT = {"execution.checkpointing.interval": "1 s"}


def test_without_a_target_nothing_is_chosen() -> None:
    job = planned(**ALIGNMENT)
    assert job.chosen == {}
    assert set(job.config) == {"parallelism.default", *ALIGNMENT}
    assert hold_ms(job.config) == 100


@pytest.mark.parametrize(
    ("target", "rows", "unaligned", "timeout"),
    [
        ("20 ms", "1024", "true", "0 ms"),
        ("100 ms", "4096", "true", "50 ms"),
        ("1 s", "32768", "true", "500 ms"),
        ("1 min", "65536", "false", None),
    ],
)
def test_a_target_chooses_batches_waits_and_alignment(
    target: str, rows: str, unaligned: str, timeout: str | None
) -> None:
    config = planned(**{"latency.target": target}, **ALIGNMENT).config
    assert config["execution.batch-rows"] == rows
    assert config["execution.checkpointing.unaligned.enabled"] == unaligned
    assert config.get("execution.checkpointing.aligned-checkpoint-timeout") == timeout
    assert config["taskmanager.network.memory.buffer-debloat.enabled"] == "true"


def test_what_is_set_wins_and_is_not_among_what_was_chosen() -> None:
    job = planned(**TARGET, **ALIGNMENT, **{"execution.batch-rows": "7"})
    assert job.config["execution.batch-rows"] == "7"
    assert "execution.batch-rows" not in job.chosen
    assert "metrics.latency.interval" in job.chosen


def test_several_exchanges_share_what_may_wait() -> None:
    shares = [{k: v for k, v, _ in choices(TARGET, n)} for n in (0, 1, 2)]
    key = "taskmanager.network.memory.buffer-debloat.target"
    assert [share.get(key) for share in shares] == [None, "50 ms", "25 ms"]
    assert exchanges(planned(1)) == exchanges(planned(4)) == 1


def test_exchanges_that_a_job_would_have_with_more_subtasks_are_told_as_such() -> None:
    key = "taskmanager.network.memory.buffer-debloat.target"
    apart, alone = planned(2, **TARGET).chosen[key], planned(1, **TARGET).chosen[key]
    assert apart == "half of the target may be spent in the only exchange"
    assert alone == f"{apart} that the job has with more subtasks"


def test_a_job_of_checkpoints_that_block_nobody_has_no_choice_of_alignment() -> None:
    for settings in ({}, {**ALIGNMENT, "execution.checkpointing.mode": "AT_LEAST_ONCE"}):
        assert not any("checkpointing" in key for key, _, _ in choices({**TARGET, **settings}, 1))


# --- the job


class Running(Master):
    """Its tasks report as often as `report` says. `idle`: for how long sources wait for rows, as a part of how long they work."""

    markers = 0
    lived_ms = 0
    idle = 1.0
    is_debloating = True

    def __init__(self, graph: JobGraph) -> None:
        super().__init__(graph)
        self.warned: list[str] = []

    def report_all(self, p99_ms: float, limits: dict[int, int], markers: int = 1000) -> list[LimitBatches]:
        """What the sources are told when each says its limit, and all say the percentile."""
        self.markers += markers
        self.out = []
        reports = []
        for subtask in self.master.graph.subtasks():
            operators = {}
            for operator in subtask.vertex.operators:
                if isinstance(operator.spec, SourceSpec):
                    limit = limits[subtask.subtask]
                    operators[operator.id] = {"limitBatchRows": limit, "largestBatchRows": limit}
                if isinstance(operator.spec, SinkSpec):
                    figures = {"endToEndLatency.count": self.markers, "endToEndLatency_p99": p99_ms}
                    operators[operator.id] = figures
            self.lived_ms += 1_000
            task = {"accumulateIdleTimeMs": self.idle * self.lived_ms, "accumulateBusyTimeMs": self.lived_ms}
            if self.is_debloating:
                task["debloatedBufferSize"] = 1
            reports.append(TaskMetrics(subtask.execution.execution_id, task, operators))
        self.handle(MetricsReceived(tuple(reports)))
        self.warned += [i.text for i in self.out if isinstance(i, Noted) and i.is_warning]
        return self.taken(LimitBatches)


def test_sources_are_told_a_new_size_until_their_reports_have_it() -> None:
    job = Running(planned(**TARGET))
    limits = {0: 4096, 1: 4096}
    told = [job.report_all(400.0, limits) for _ in range(3)]
    assert [len(messages) for messages in told] == [0, 0, 2]
    assert {message.rows for message in told[-1]} == {512}
    # Nothing is sent again before the next report, however often the job looks.
    job.out = []
    job.tick(10)
    assert job.taken(LimitBatches) == []
    # One message is lost.
    assert len(job.report_all(50.0, {0: 512, 1: 4096}, markers=0)) == 1
    assert job.report_all(50.0, {0: 512, 1: 512}, markers=0) == []
    status = describe_job(job.master).latency
    assert status is not None
    assert (status.batch_rows, status.p99_ms, status.is_reached) == (512, 400, False)
    assert [(d.before, d.rows) for d in status.decisions] == [(4096, 512)]


def test_tasks_are_looked_at_when_they_have_reported_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Running(planned(**TARGET))
    looks, markers = [], latency_control._markers
    monkeypatch.setattr(latency_control, "_markers", lambda graph: looks.append(1) or markers(graph))
    for _ in range(3):
        job.report_all(50.0, {0: 4096, 1: 4096})
        job.tick(10)
        job.tick(10)
    assert len(looks) == 3


def test_tasks_are_told_when_waits_between_them_are_bounded_no_longer() -> None:
    job = Running(planned(**TARGET))
    job.idle = 0.0
    limits = {0: 256, 1: 256}
    told: list[LimitBatches] = []
    while not told or told[-1].is_debloating:
        told = job.report_all(400.0, limits)
        limits = dict.fromkeys(limits, told[-1].rows) if told else limits
    # Two sources, and two tasks that read channels.
    assert {(m.rows, m.is_debloating) for m in told} == {(65_536, False)}
    assert len(told) == 4
    status = describe_job(job.master).latency
    assert status is not None
    assert status.mode is status.decisions[0].mode is LatencyMode.THROUGHPUT
    assert job.warned == [f"latency.target: batches of 256 -> 65536 rows, since {status.decisions[0].reason}"]
    job.is_debloating = False
    assert job.report_all(400.0, limits, markers=0) == []
    job.idle = 1.0
    while describe_job(job.master).latency.mode is LatencyMode.THROUGHPUT:  # type: ignore[union-attr]
        told = job.report_all(40.0, limits)
    assert [(m.rows, m.is_debloating) for m in told] == [(65_536, True)] * 2


def test_tasks_without_channels_are_told_nothing_of_waits() -> None:
    job = Running(planned(1, "(SELECT k FROM s UNION ALL SELECT * FROM (VALUES (1)) AS t (k))", **TARGET))
    assert {len(s.vertex.operators[0].input_schemas) for s in job.master.graph.subtasks()} == {0, 1}
    assert job.report_all(50.0, {0: 4096}, markers=0) == []
    job.is_debloating = False
    told = {m.execution_id for m in job.report_all(50.0, {0: 4096}, markers=0)}
    reading = [s for s in job.master.graph.subtasks() if s.vertex.operators[0].input_schemas]
    assert told == {subtask.execution.execution_id for subtask in reading}


def test_waits_that_are_set_are_left() -> None:
    job = Running(planned(**TARGET, **{"taskmanager.network.memory.buffer-debloat.enabled": "true"}))
    job.idle = 0.0
    limits = {0: 256, 1: 256}
    for _ in range(30):
        told = job.report_all(400.0, limits)
        limits = dict.fromkeys(limits, told[-1].rows) if told else limits
    # The sources alone are told anything.
    assert len(told) in (0, 2)
    status = describe_job(job.master).latency
    assert status is not None
    assert status.mode is LatencyMode.THROUGHPUT


def test_too_few_markers_decide_nothing() -> None:
    job = Running(planned(**TARGET))
    for _ in range(5):
        assert job.report_all(400.0, {0: 4096, 1: 4096}, markers=20) == []
    status = describe_job(job.master).latency
    assert status is not None
    assert status.p99_ms is None


def test_a_size_that_is_set_is_measured_and_left() -> None:
    job = Running(planned(**TARGET, **{"execution.batch-rows": "4096"}))
    told = [message for _ in range(9) for message in job.report_all(400.0, {0: 4096, 1: 4096})]
    assert {(m.rows, m.is_debloating) for m in told} == {(4096, False)}
    status = describe_job(job.master).latency
    assert status is not None
    assert (status.is_tuned, status.p99_ms, status.batch_rows) == (False, 400, 4096)
    assert [(d.before, d.rows, d.mode) for d in status.decisions] == [(4096, 4096, LatencyMode.THROUGHPUT)]


def test_a_job_without_a_target_measures_nothing() -> None:
    job = Running(planned())
    assert describe_job(job.master).latency is None
