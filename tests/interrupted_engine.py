"""Runs each query in child processes, kills one of them at a random point, stops the job at another one, and goes on from its
newest checkpoint with the other state backend: at another parallelism, or, from unaligned checkpoints, at the same and with one
more kill."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from interrupted_connectors import GATE, KEPT, PAUSE_MS, SINK_PAUSE_MS, kept_rows
from oracle import TIMEOUT_S, Engine, Finished

from sqlstream.arrow import to_arrow_schema
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.dialect.statements import Insert, Statement
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.specs import SinkSpec

SETTINGS = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "10 ms",
}

UNALIGNED = {
    "execution.checkpointing.unaligned.enabled": "true",
    "taskmanager.network.memory.max-buffered-bytes": "64 kb",
    SINK_PAUSE_MS: "40",
}
"""Some sinks are slower than sources, so that rows wait between tasks."""

IN_FLIGHT_WAIT_S = 1.0
"""How long to wait for a checkpoint with rows in flight: a query with few rows may have none."""

BACKEND = "state.backend.type"
HASHMAP, MAPPED = "hashmap", "mapped"


@dataclasses.dataclass(frozen=True)
class Lives:
    """Where state lies before and behind the restore, and how long barriers wait before they pass rows (None: for ever)."""

    before: str
    behind: str
    unaligned: str | None = None

    def __str__(self) -> str:
        return f"{self.before}-{self.behind}" + ("-unaligned" if self.unaligned is not None else "")


class InterruptedEngine(Engine):
    """An Engine whose jobs are interrupted twice each: their sources of files and of Nexmark do not end before. `kills` and
    `restores` count those that came before the end of the job (one without such sources may be quicker; one may have no
    checkpoint yet), of `jobs`; `went_on_in_flight` those of `unaligned_jobs` that went on from a checkpoint with rows in flight.

    State: the cluster, which replaces the children that are killed, how long sources pause after each batch, how the job lives,
    and whether it has gone on from a checkpoint with rows in flight."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory)
        self._place = directory
        self._random = random.Random(seed)
        self.pause_ms = 10
        self.lives = Lives(HASHMAP, MAPPED)
        self._children = EmbeddedCluster({"taskmanager.numberOfTaskSlots": "1"}, task_managers=3)
        self._children.start()
        self._compile: Callable[[], CompiledPlan]
        self.jobs = 0
        self.kills = 0
        self.restores = 0
        self.unaligned_jobs = 0
        self.went_on_in_flight = 0
        self._goes_on_in_flight = False

    def close(self) -> None:
        self._children.close()
        super().close()

    def compile(self, statement: Statement) -> CompiledPlan:
        self._compile = lambda: _streaming(super(InterruptedEngine, self).compile(statement))
        return self._compile()

    def compile_collected(self, insert: Insert) -> CompiledPlan:
        self._compile = lambda: _streaming(super(InterruptedEngine, self).compile_collected(insert))
        return self._compile()

    def job(self, plan: CompiledPlan) -> Finished:  # type: ignore[override]
        self.jobs += 1
        self.unaligned_jobs += self.lives.unaligned is not None
        self._goes_on_in_flight = False
        rows = self._place / f"kept-{secrets.token_hex(4)}"
        gate = self._place / f"gate-{rows.name}"
        job_id = self._live_twice(plan, rows, gate)
        reply = self._children.wait(job_id, TIMEOUT_S)
        if reply.status is not JobStatus.FINISHED:
            assert reply.error is not None, reply
            raise reply.error.to_job_error()
        self.went_on_in_flight += self._goes_on_in_flight
        schema = plan.relational[-1].schema
        return Finished(plan, schema, kept_rows(rows, to_arrow_schema(schema)).to_batches(), {})

    def _live_twice(self, plan: CompiledPlan, rows: Path, gate: Path) -> str:
        """Interrupt the job, and let it go on to its end; returns the id that it has then."""
        checkpoints = self._place / "checkpoints"
        settings = SETTINGS | {"execution.checkpointing.dir": str(checkpoints), PAUSE_MS: str(self.pause_ms)}
        settings |= {GATE: str(gate)} | self._unaligned_settings()
        graph = _kept(plan.job_graph, rows, settings | {BACKEND: self.lives.before})
        self._children.submit(graph)
        self._run_for_a_while(graph.job_id)
        self._kill_and_go_on(graph.job_id)
        self._wait(graph.job_id, 0.3)
        self._await_in_flight(graph.job_id)
        self._children.cancel(graph.job_id)
        status = self._children.wait(graph.job_id, TIMEOUT_S).status
        if status is JobStatus.CANCELED:
            newest = self._newest(checkpoints / graph.job_id)
            if newest is not None:
                settings |= {"execution.state-recovery.path": str(newest)}
                self.restores += 1
            behind = self._compile() if self.lives.unaligned is not None else self._at_another_parallelism()
            graph = _kept(behind.job_graph, rows, settings | {BACKEND: self.lives.behind})
            self._children.submit(graph)
            if self.lives.unaligned is not None:
                self._run_for_a_while(graph.job_id)
                self._kill_and_go_on(graph.job_id)
        gate.touch()
        return graph.job_id

    def _unaligned_settings(self) -> dict[str, str]:
        if self.lives.unaligned is None:
            return {}
        return UNALIGNED | {"execution.checkpointing.aligned-checkpoint-timeout": self.lives.unaligned}

    def _at_another_parallelism(self) -> CompiledPlan:
        """The plan of the same statement."""
        config = self._session.config
        before = config["parallelism.default"]
        config["parallelism.default"] = str(int(before) % 3 + 1)
        try:
            return self._compile()
        finally:
            config["parallelism.default"] = before

    def _run_for_a_while(self, job_id: str) -> None:
        """Most jobs have a checkpoint then."""
        self._until(job_id, lambda: self._children.status(job_id).status is JobStatus.RUNNING)
        if self._random.random() < 0.8:
            self._until(job_id, lambda: self._children.checkpoints(job_id).counts.completed > 0)
        self._wait(job_id, 0.2)

    def _kill_and_go_on(self, job_id: str) -> None:
        before = len(self._children.details(job_id).restarts)
        self._await_in_flight(job_id)
        self._kill(job_id)
        self._until(job_id, lambda: self._has_restarted(job_id, before))

    def _has_restarted(self, job_id: str, before: int) -> bool:
        details = self._children.details(job_id)
        return len(details.restarts) > before and details.status is JobStatus.RUNNING

    def _await_in_flight(self, job_id: str) -> None:
        """An unaligned job goes on from a checkpoint with rows in flight, if it has one soon."""
        if self.lives.unaligned is None:
            return
        end_s = time.monotonic() + IN_FLIGHT_WAIT_S
        self._until(job_id, lambda: self._has_in_flight(job_id) or time.monotonic() > end_s)
        self._goes_on_in_flight |= self._has_in_flight(job_id)

    def _has_in_flight(self, job_id: str) -> bool:
        newest = self._children.checkpoints(job_id).latest_completed
        return newest is not None and newest.in_flight_rows > 0

    def _until(self, job_id: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition or the end of the job."""
        end_s = time.monotonic() + TIMEOUT_S
        while not condition() and not self._children.status(job_id).status.is_terminal:
            assert time.monotonic() < end_s, (
                self._children.details(job_id),
                self._children.checkpoints(job_id),
            )
            time.sleep(0.005)

    def _wait(self, job_id: str, longest_s: float) -> None:
        """Wait for a random time, or until the job has ended."""
        with contextlib.suppress(TimeoutError):
            self._children.wait(job_id, self._random.uniform(0, longest_s))

    def _kill(self, job_id: str) -> None:
        """Kill a process that runs tasks of the job, once it has any; it restarts unless it has ended."""
        self._until(job_id, lambda: bool(self._victims(job_id)))
        victims = self._victims(job_id)
        if not victims:
            return
        victim = self._random.choice(sorted(victims))
        self.kills += not self._children.status(job_id).status.is_terminal
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

    def _victims(self, job_id: str) -> list[int]:
        details = self._children.details(job_id)
        places = {s.task_manager_id for vertex in details.vertices for s in vertex.subtasks}
        return [t.process_id for t in self._children.task_managers() if t.task_manager_id in places]

    @staticmethod
    def _newest(directory: Path) -> Path | None:
        complete = [path.parent for path in directory.glob("chk-*/_metadata")]
        return max(complete, key=lambda path: int(path.name.removeprefix("chk-")), default=None)


def _streaming(plan: object) -> CompiledPlan:
    assert isinstance(plan, CompiledPlan)
    return plan


def _kept(graph: JobGraph, rows: Path, settings: dict[str, str]) -> JobGraph:
    """The graph with the sink KEPT in place of `collect`."""
    vertices = []
    for vertex in graph.vertices:
        operators = []
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                spec = msgspec.structs.replace(operator.spec, connector=KEPT, options={"path": str(rows)})
                operator = msgspec.structs.replace(operator, spec=spec)
            operators.append(operator)
        vertices.append(msgspec.structs.replace(vertex, operators=tuple(operators)))
    return msgspec.structs.replace(graph, vertices=tuple(vertices), config={**graph.config, **settings})
