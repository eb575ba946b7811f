"""EXPLAIN STATE FOR JOB: rates of growth from samples of a job's life, and when its budget is used up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.client.diagnosis.state_growth import state_growth_text
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, TaskMetrics
from sqlstream.messages.state_growth import OperatorGrowth, Size, StateGrowth
from sqlstream.runtime.jobmanager.state_history import SAMPLES_MAX, Sample, StateHistory

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""
HOUR_MS = 3_600_000
GROUPS = 3


def planned(**settings: str) -> JobGraph:
    (plan,) = compile_script(DDL + "INSERT INTO console SELECT k, COUNT(*) FROM s GROUP BY k", settings)
    (keeping,) = (o for v in plan.job_graph.vertices for o in v.operators if o.spec.kept_state())
    assert keeping.id == GROUPS
    return replace(plan.job_graph, job_id="j1")


def details(growth: StateGrowth | None) -> JobDetails:
    return JobDetails("j1", "counts", JobStatus.RUNNING, 0, -1, {}, (), state_growth=growth)


def lived(hours: int, keys_an_hour: int, budget_bytes: int = 0, step_ms: int = 60_000) -> StateGrowth:
    """The growth of a job that has got so many keys of 100 bytes an hour, in each of two slots."""
    history = StateHistory()
    for now_ms in range(0, hours * HOUR_MS + 1, step_ms):
        if history.is_due(now_ms):
            keys = keys_an_hour * now_ms // HOUR_MS
            sizes = {GROUPS: Size(200 * keys, 2 * keys)}
            history.add(Sample(now_ms, sizes, {"a": 100 * keys, "b": 100 * keys}, budget_bytes))
    growth = history.growth()
    assert growth is not None
    return growth


def test_a_job_that_grows_says_keys_and_bytes_a_day_and_the_days_that_are_left() -> None:
    text = state_growth_text(details(lived(24, 1200, 14_400_000)), planned(), 0)
    assert "GlobalGroupAggregate[3]" in text
    assert "keeps       5.5 MiB in 57,600 keys" in text
    assert "size        100 bytes per key" in text
    # 2 subtasks × 1200 keys × 24 hours.
    assert "grows       by 57,600 keys and 5.5 MiB a day" in text
    assert "bounded by  nothing but the number of distinct keys" in text
    # (14,400,000 - 2,880,000) / 2,880,000 a day
    assert "the fullest has 2.7 MiB: 4.0 days until it is used up" in text
    assert "13.7 MiB for each of 2 slots (taskmanager.memory.managed.size)" in text


def test_a_budget_that_is_given_is_of_all_of_the_job() -> None:
    text = state_growth_text(details(lived(24, 1200)), planned(), 6_000_000)
    # 240,000 bytes are left, and 240,000 come in an hour.
    assert "5.7 MiB for all of the job (sqlstream.state.budget), which has 5.5 MiB: 1 h 0 min until" in text
    assert "it is used up" in state_growth_text(details(lived(24, 1000)), planned(), 4_000_000)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "taskmanager.memory.managed.size is not set"), ({"state.backend.type": "mapped"}, "lies in files")],
)
def test_without_a_budget_that_is_said(settings: dict[str, str], said: str) -> None:
    text = state_growth_text(details(lived(2, 1000)), planned(**settings), 0)
    assert "budget: none" in text
    assert said in text


def test_state_that_does_not_grow_is_never_full() -> None:
    history = StateHistory()
    for now_ms in (0, 60_000, 120_000):
        history.add(Sample(now_ms, {GROUPS: Size(500, 5)}, {"a": 500}, 1000))
    text = state_growth_text(details(history.growth()), planned(), 0)
    assert "grows       not at all" in text
    assert text.rstrip().endswith("the fullest has 500 B and does not grow")


def test_one_measurement_has_sizes_and_no_rates() -> None:
    history = StateHistory()
    history.add(Sample(0, {GROUPS: Size(500, 5)}, {"a": 500}, 1000))
    text = state_growth_text(details(history.growth()), planned(), 0)
    assert "measured once until now" in text
    assert "grows" not in text
    assert state_growth_text(details(None), planned(), 0).endswith("have not reported yet\n")


def test_a_job_whose_tasks_have_not_reported_again_is_not_said_not_to_grow() -> None:
    def reported(entries: int) -> TaskMetrics:
        return TaskMetrics("e", {}, {GROUPS: {"stateBytes": entries * 100, "stateEntries": entries}})

    execution = SimpleNamespace(metrics=reported(5), allocation_id="a", is_terminal=False)
    graph: Any = SimpleNamespace(subtasks=lambda: [SimpleNamespace(execution=execution)])
    history = StateHistory()
    for now_ms in (0, 5_000):
        history.advance(graph, now_ms)
    assert "grows" not in state_growth_text(details(history.growth()), planned(), 0)
    execution.metrics = reported(15)
    history.advance(graph, 10_000)
    assert "grows       by 86,400 keys" in state_growth_text(details(history.growth()), planned(), 0)


def test_vertices_of_a_graph_are_named_so() -> None:
    (plan,) = compile_script(DDL + "SELECT * FROM TRIANGLES(TABLE s, DESCRIPTOR(k, v))")
    (keeping,) = (o for v in plan.job_graph.vertices for o in v.operators if o.spec.kept_state())
    growth = StateGrowth(0, (OperatorGrowth(keeping.id, Size(100, 2), Size()),))
    text = state_growth_text(details(growth), plan.job_graph, 0)
    assert "in 2 edges" in text
    (plan,) = compile_script(DDL + "SELECT * FROM CONNECTED_COMPONENTS(TABLE s, DESCRIPTOR(k, v))")
    assert "in 2 vertices" in state_growth_text(details(growth), plan.job_graph, 0)


def test_a_job_that_keeps_expired_rows_has_no_size_of_a_key() -> None:
    graph = planned(**{"table.exec.state.ttl": "1 h", "sqlstream.state.expired-rows.retention": "1 d"})
    text = state_growth_text(details(lived(24, 1200)), graph, 0)
    assert "keeps       5.5 MiB in 57,600 keys and in rows that have expired\n" in text
    assert "bytes per key" not in text


def test_a_long_life_has_few_samples_that_span_it() -> None:
    history = StateHistory()
    for now_ms in range(0, 100 * HOUR_MS, 1_000):
        if history.is_due(now_ms):
            history.add(Sample(now_ms, {GROUPS: Size(now_ms, now_ms)}, {"a": 0}))
    assert SAMPLES_MAX // 2 <= len(history._samples) < SAMPLES_MAX
    growth = history.growth()
    assert growth is not None
    assert 40 * HOUR_MS <= growth.span_ms <= 60 * HOUR_MS


def test_what_a_job_did_in_its_first_half_is_not_its_rate() -> None:
    history = StateHistory()
    for minute in range(61):
        keys = min(minute, 20) * 1000
        history.add(Sample(minute * 60_000, {GROUPS: Size(keys * 100, keys)}, {"a": keys * 100}, 10**9))
    assert "grows       not at all" in state_growth_text(details(history.growth()), planned(), 0)
