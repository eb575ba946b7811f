"""Jobs whose parallelism follows how busy they are: decisions on traces, and the job that carries them out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from checkpointed_master import Master
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rescale import AutoscalerStatus, VertexLoad
from sqlstream.messages.rpc import TaskMetrics, TriggerCheckpoint
from sqlstream.runtime.jobmanager.autoscaling import AutoscalerSettings, Load, autoscaler_settings, decide
from sqlstream.runtime.jobmanager.events import JobStored, MetricsReceived, Noted, StoreJob
from sqlstream.runtime.jobmanager.job_details import describe_job
from sqlstream.specs import SourceSpec

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""
COUNTS = "INSERT INTO console SELECT k, count(*) FROM s GROUP BY k"
CONFIG = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "60 s",
    "job.autoscaler.stabilization.interval": "30 s",
    "job.autoscaler.scale-down.interval": "120 s",
    "job.autoscaler.catch-up.duration": "10 min",
    "job.autoscaler.restart.time": "10 s",
    "execution.checkpointing.interval": "1 h",
}


def planned(parallelism: int, **changes: str) -> JobGraph:
    config = CONFIG | {
        f"job.autoscaler.{k.replace('__', '.').replace('_', '-')}": v for k, v in changes.items()
    }
    (plan,) = compile_script(DDL + COUNTS, config | {"parallelism.default": str(parallelism)})
    return replace(plan.job_graph, job_id="j1")


def settings(**changes: str) -> AutoscalerSettings:
    found = autoscaler_settings(planned(1, **changes))
    assert found is not None
    return found


def load(busy: float, **changes: Any) -> Load:
    return Load((VertexLoad("v", 4, True, busy, 0.0),), **({"rate": 100.0, "waiting": 0.0} | changes))


# --- one window


@pytest.mark.parametrize(("busy", "expected"), [(0.2, 2), (0.39, 3), (0.4, 4), (0.7, 4), (0.99, 4)], ids=str)
def test_within_the_boundary_of_the_target_nothing_changes(busy: float, expected: int) -> None:
    assert decide(load(busy), 4, 128, settings())[0] == expected


def test_a_job_that_falls_behind_gets_what_it_needs_to_catch_up() -> None:
    behind = load(1.0, pending=6000.0, growth=50.0)
    wanted, why = decide(behind, 4, 128, settings())
    # 150 records per second come, and 7500 have to be read within 600 s.
    assert wanted == 10
    assert why == (
        '"v" is busy for 100% of the time, 6000 records are left to read: 162% are asked for; 10 would be busy for 70%'
    )
    assert decide(behind, 4, 128, settings(catch_up__duration="0 s"))[0] == 9


def test_a_source_that_waits_and_does_not_say_what_is_left_asks_for_somewhat_more() -> None:
    assert decide(load(1.0, waiting=0.9), 4, 128, settings())[0] == 9
    assert decide(load(1.0), 4, 128, settings())[0] == 4


def test_a_job_with_much_to_read_does_not_shrink() -> None:
    idle = load(0.1, pending=100_000.0, growth=-10.0)
    wanted, why = decide(idle, 4, 128, settings(catch_up__duration="10 h"))
    assert (wanted, "backlog-processing.lag-threshold" in why) == (4, True)


@pytest.mark.parametrize(
    ("changes", "busy", "expected"),
    [
        ({"vertex__min_parallelism": "3"}, 0.1, 3),
        ({"vertex__max_parallelism": "6"}, 1.0, 6),
        ({"scale_down__max_factor": "0.25"}, 0.1, 3),
        ({"scale_up__max_factor": "0.5"}, 1.0, 6),
    ],
    ids=str,
)
def test_limits_hold(changes: dict[str, str], busy: float, expected: int) -> None:
    behind = load(busy, pending=60_000.0 if busy == 1.0 else 0.0, growth=500.0 if busy == 1.0 else 0.0)
    assert decide(behind, 4, 128, settings(**changes))[0] == expected


def test_the_slots_and_key_groups_are_a_limit_too() -> None:
    assert decide(load(1.0, pending=6000.0, growth=50.0), 4, 5, settings())[0] == 5


def test_a_vertex_of_a_fixed_parallelism_decides_nothing() -> None:
    fixed = Load((VertexLoad("f", 1, False, 1.0, 0.0), VertexLoad("v", 4, True, 0.6, 0.0)), 100.0, 0.0)
    assert decide(fixed, 4, 128, settings())[0] == 4


# --- traces


@dataclass
class Plant:
    """A job of one vertex whose subtasks each read `capacity` records per second; a rescale stops it for 10 s."""

    capacity: float
    parallelism: int
    pending: float = 0.0

    def window(self, rate: float, seconds: float) -> Load:
        most = self.capacity * self.parallelism
        before = self.pending
        read = min(most, rate + self.pending / seconds)
        self.pending = max(0.0, self.pending + (rate - read) * seconds)
        growth = (self.pending - before) / seconds
        vertices = (VertexLoad("v", self.parallelism, True, read / most, 0.0),)
        return Load(vertices, read, 0.0, self.pending, growth)


def run(plant: Plant, rates: list[float], **changes: str) -> list[int]:
    """The parallelism behind each window of a minute."""
    found, chosen = [], settings(**changes)
    for rate in rates:
        wanted, _ = decide(plant.window(rate, 60), plant.parallelism, 128, chosen)
        if wanted != plant.parallelism:
            plant.pending += rate * 10
        plant.parallelism = wanted
        found.append(wanted)
    return found


@pytest.mark.parametrize("rate", [40, 333, 700, 999, 1010, 2500, 5555])
@pytest.mark.parametrize("begin", [1, 4, 32])
def test_on_a_steady_load_it_settles_and_stays(rate: float, begin: int) -> None:
    found = run(Plant(100.0, begin), [float(rate)] * 60)
    assert len(set(found[30:])) == 1
    utilisation = rate / (100 * found[-1])
    assert utilisation <= 1.0
    assert found[-1] == 1 or utilisation >= 0.4
    # It does not go there and back.
    changes = [b - a for a, b in zip([begin, *found], found, strict=False) if a != b]
    assert sum((a > 0) != (b > 0) for a, b in itertools.pairwise(changes)) <= 1


def test_it_follows_a_step_up_and_a_step_down() -> None:
    plant = Plant(100.0, 4)
    found = run(plant, [250.0] * 10 + [900.0] * 20)
    assert set(found[:10]) == {4}
    assert found[11] > 9
    assert plant.pending < 900
    assert found[-1] in range(9, 24)
    back = run(plant, [250.0] * 20)
    assert back[-1] in range(3, 7)


def test_noise_within_the_boundary_changes_nothing() -> None:
    rates = [280.0 + (37 * n) % 100 - 50 for n in range(60)]
    assert set(run(Plant(100.0, 4), rates)) == {4}


# --- the job


class Scaled(Master):
    """A job whose tasks report that they work for `busy` of the time."""

    busy = 0.0
    left = 0.0

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.now_ms += 10_000
            reports = [
                TaskMetrics(
                    e.execution.execution_id,
                    {
                        "accumulateBusyTimeMs": round(self.now_ms * self.busy),
                        "accumulateIdleTimeMs": round(self.now_ms * (1 - self.busy)),
                        "accumulateBackPressuredTimeMs": 0,
                    },
                    {
                        e.vertex.operators[0].id: {
                            "numRecordsOut": self.now_ms // 10,
                            "pendingRecords": self.left * self.now_ms / 1000,
                        }
                    }
                    if isinstance(e.vertex.operators[0].spec, SourceSpec)
                    else {},
                )
                for e in self.master.graph.subtasks()
            ]
            self.handle(MetricsReceived(tuple(reports)))
            self.tick()

    @property
    def parallelism(self) -> int:
        assert self.master.job_graph.scaling is not None
        return self.master.job_graph.scaling.parallelism

    def status(self) -> AutoscalerStatus:
        status = describe_job(self.master).autoscaler
        assert status is not None
        return status

    def finish_rescale(self, checkpoint_id: int) -> None:
        self.tick()
        self.acknowledge_all(checkpoint_id)
        self.stored(checkpoint_id)
        for execution in list(self.master.graph.executions()):
            if execution.state is ExecutionState.CANCELING:
                self.report(execution.execution_id, ExecutionState.CANCELED)
        self.tick()
        self.handle(JobStored("j1"))
        self.run_all()


def test_a_job_that_has_little_to_do_shrinks_after_its_intervals() -> None:
    job = Scaled(planned(4))
    job.busy = 0.2
    job.pass_time(80)
    assert job.status().decisions == ()
    job.out = []
    job.pass_time(30)
    (decision,) = job.status().decisions
    assert (decision.parallelism, decision.wanted, decision.is_applied) == (4, 2, False)
    (said,) = [n.text for n in job.taken(Noted)]
    assert said == (
        'the autoscaler: parallelism 4 -> 2, since "Source: s[1] -> LocalGroupAggregate[2]" is busy for 20% of the time; '
        "2 would be busy for 70%; "
        "it is lowered after job.autoscaler.scale-down.interval"
    )
    job.pass_time(100)
    assert job.status().decisions[0].is_applied
    job.finish_rescale(1)
    assert job.parallelism == 2
    assert [s.job_graph.scaling.parallelism for s in job.taken(StoreJob)] == [2]
    # It is measured anew.
    job.busy = 0.5
    job.pass_time(80)
    assert len(job.status().decisions) == 2
    job.pass_time(200)
    assert [d.wanted for d in job.status().decisions] == [2, 2, 2]
    assert [round(v.busy, 1) for v in job.status().vertices] == [0.5, 0.5]


def test_a_job_that_falls_behind_grows_at_once() -> None:
    job = Scaled(planned(2))
    job.busy, job.left = 1.0, 50.0
    job.pass_time(120)
    applied = job.status().decisions[0]
    assert (applied.is_applied, applied.wanted > 2, "are left to read" in applied.reason) == (
        True,
        True,
        True,
    )
    # It waits for its slots.
    assert job.taken(TriggerCheckpoint) == []
    assert job.master.rescaling.is_under_way


def test_what_is_only_told_is_not_done() -> None:
    job = Scaled(planned(2, scaling__enabled="false"))
    job.busy, job.left = 1.0, 50.0
    job.pass_time(300)
    assert not job.master.rescaling.is_under_way
    assert {d.is_applied for d in job.status().decisions} == {False}
    assert "job.autoscaler.scaling.enabled is false" in job.status().decisions[0].reason


def test_a_job_that_takes_all_slots_is_left_to_do_so() -> None:
    job = Scaled(planned(2))
    graph = job.master.graph
    graph.job_graph = replace(
        graph.job_graph, config={**graph.job_graph.config, "scheduler-mode": "REACTIVE"}
    )
    job.busy, job.left = 1.0, 50.0
    job.pass_time(300)
    (decision, *_) = job.status().decisions
    assert not decision.is_applied
    assert "scheduler-mode is REACTIVE" in decision.reason


def test_a_restart_begins_the_measurement_anew() -> None:
    job = Scaled(planned(2))
    job.busy, job.left = 1.0, 50.0
    job.pass_time(80)
    job.fail(next(job.master.graph.executions()).execution_id)
    job.run_all()
    job.pass_time(60)
    assert job.status().decisions == ()


def test_jobs_without_it_have_no_autoscaler() -> None:
    assert autoscaler_settings(planned(2, enabled="false")) is None
    job = Scaled(planned(2, enabled="false"))
    assert describe_job(job.master).autoscaler is None
    with pytest.raises(UserError, match="must be at most 1"):
        autoscaler_settings(planned(2, utilization__target="1.5"))
    with pytest.raises(UserError, match=r"must be at least 0\.01"):
        autoscaler_settings(planned(2, utilization__target="0"))


def test_a_lowest_parallelism_above_the_highest_is_refused() -> None:
    with pytest.raises(UserError, match='min-parallelism" is 5, more than the 4 of') as refused:
        autoscaler_settings(planned(2, vertex__min_parallelism="5", vertex__max_parallelism="4"))
    assert "SET 'job.autoscaler.vertex.max-parallelism' = '5'" in (refused.value.hint or "")
