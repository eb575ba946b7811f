"""`latency.target`: what a job begins with, how the size of batches follows what is measured, and what sources are told."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from checkpointed_master import Master
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.latency_choice import BATCH_ROWS_MAX, BATCH_ROWS_MIN, choices, exchanges, hold_ms
from sqlstream.messages.rpc import LimitBatches, TaskMetrics
from sqlstream.runtime.jobmanager.events import MetricsReceived
from sqlstream.runtime.jobmanager.job_details import describe_job
from sqlstream.runtime.jobmanager.latency_control import PATIENCE, Measured, Sizing, resize
from sqlstream.specs import SinkSpec, SourceSpec

TARGET_MS = 100
Model = Callable[[int], float]


def follow(model: Model, steps: int, first: int = 4096, arrives: int = 1 << 30) -> list[Sizing]:
    """The sizings of a job whose 99th percentile is that of the model; `arrives`: no batch has more rows."""
    sizing, passed = Sizing(first, first), []
    for _ in range(steps):
        sizing = resize(sizing, Measured(model(sizing.rows), min(sizing.rows, arrives)), TARGET_MS)
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
    assert passed[20].is_given_up
    assert passed[20].rows == 4096
    assert "it is not for their size" in next(s.reason for s in passed if s.is_given_up)
    assert changes(passed[6:PATIENCE]) == 0
    assert sum(s.rows == 4096 for s in passed) >= 0.8 * len(passed)


def test_a_job_that_keeps_it_with_no_size_gets_the_one_of_the_highest_throughput() -> None:
    passed = follow(lambda rows: 150.0 + rows / 5, 30)
    assert (passed[-1].rows, passed[-1].is_given_up) == (BATCH_ROWS_MAX, True)
    assert min(s.rows for s in passed) == BATCH_ROWS_MIN
    assert "large ones get most through" in next(s.reason for s in passed if s.is_given_up)


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


# --- what a job begins with


DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""


def planned(parallelism: int = 2, **settings: str) -> JobGraph:
    statement = "INSERT INTO console SELECT k, count(*) FROM s GROUP BY k"
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


def test_a_job_of_checkpoints_that_block_nobody_has_no_choice_of_alignment() -> None:
    for settings in ({}, {**ALIGNMENT, "execution.checkpointing.mode": "AT_LEAST_ONCE"}):
        assert not any("checkpointing" in key for key, _, _ in choices({**TARGET, **settings}, 1))


# --- the job


class Running(Master):
    """Its tasks report as often as `report` says."""

    markers = 0

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
            reports.append(TaskMetrics(subtask.execution.execution_id, {}, operators))
        self.handle(MetricsReceived(tuple(reports)))
        return self.taken(LimitBatches)


def test_sources_are_told_a_new_size_until_their_reports_have_it() -> None:
    job = Running(planned(**TARGET))
    limits = {0: 4096, 1: 4096}
    told = [job.report_all(400.0, limits) for _ in range(3)]
    assert [len(messages) for messages in told] == [0, 0, 2]
    assert {message.rows for message in told[-1]} == {512}
    # One message is lost.
    assert len(job.report_all(50.0, {0: 512, 1: 4096}, markers=0)) == 1
    assert job.report_all(50.0, {0: 512, 1: 512}, markers=0) == []
    status = describe_job(job.master).latency
    assert status is not None
    assert (status.batch_rows, status.p99_ms, status.is_reached) == (512, 400, False)
    assert [(d.before, d.rows) for d in status.decisions] == [(4096, 512)]


def test_too_few_markers_decide_nothing() -> None:
    job = Running(planned(**TARGET))
    for _ in range(5):
        assert job.report_all(400.0, {0: 4096, 1: 4096}, markers=20) == []
    status = describe_job(job.master).latency
    assert status is not None
    assert status.p99_ms is None


def test_a_size_that_is_set_is_measured_and_left() -> None:
    job = Running(planned(**TARGET, **{"execution.batch-rows": "4096"}))
    assert not any(job.report_all(400.0, {0: 4096, 1: 4096}) for _ in range(5))
    status = describe_job(job.master).latency
    assert status is not None
    assert (status.is_tuned, status.p99_ms, status.decisions) == (False, 400, ())


def test_a_job_without_a_target_measures_nothing() -> None:
    job = Running(planned())
    assert describe_job(job.master).latency is None
