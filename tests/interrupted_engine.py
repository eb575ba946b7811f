"""Runs each query in child processes, kills one of them at a random point, stops the job at another one, and goes on from its
newest checkpoint at another parallelism, with the other state backend."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from interrupted_connectors import GATE, KEPT, PAUSE_MS, kept_rows
from oracle import TIMEOUT_S, Engine, Finished

from planner.compile import CompiledPlan
from planner.dialect.statements import Insert, Statement
from runtime.embedded import EmbeddedCluster
from sqlstream.arrow import to_arrow_schema
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.specs import SinkSpec

SETTINGS = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "5",
    "restart-strategy.fixed-delay.delay": "10 ms",
}

BACKEND = "state.backend.type"
HASHMAP, MAPPED = "hashmap", "mapped"


class InterruptedEngine(Engine):
    """An Engine whose jobs are interrupted twice each: their sources of files and of Nexmark do not end before. `kills` and
    `restores` count those that came before the end of the job (one without such sources may be quicker; one may have no
    checkpoint yet), of `jobs`.

    State: the cluster, which replaces the children that are killed, how long sources pause after each batch, and where state lies
    before and behind the restore (`backends`)."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory)
        self._place = directory
        self._random = random.Random(seed)
        self.pause_ms = 10
        self.backends = HASHMAP, MAPPED
        self._children = EmbeddedCluster({"taskmanager.numberOfTaskSlots": "1"}, task_managers=3)
        self._children.start()
        self._compile: Callable[[], CompiledPlan]
        self.jobs = 0
        self.kills = 0
        self.restores = 0

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
        rows = self._place / f"kept-{secrets.token_hex(4)}"
        checkpoints = self._place / "checkpoints"
        gate = self._place / f"gate-{rows.name}"
        settings = SETTINGS | {"execution.checkpointing.dir": str(checkpoints), PAUSE_MS: str(self.pause_ms)}
        settings[GATE] = str(gate)
        settings[BACKEND], backend_behind = self.backends
        graph = _kept(plan.job_graph, rows, settings)
        self._children.submit(graph)
        self._run_for_a_while(graph.job_id)
        self._kill(graph.job_id)
        self._until(graph.job_id, lambda: self._has_restarted(graph.job_id))
        self._wait(graph.job_id, 0.3)
        self._children.cancel(graph.job_id)
        status = self._children.wait(graph.job_id, TIMEOUT_S).status
        gate.touch()
        if status is JobStatus.CANCELED:
            newest = self._newest(checkpoints / graph.job_id)
            if newest is not None:
                settings |= {"execution.state-recovery.path": str(newest)}
                self.restores += 1
            settings[BACKEND] = backend_behind
            graph = _kept(self._at_another_parallelism().job_graph, rows, settings)
            self._children.submit(graph)
        reply = self._children.wait(graph.job_id, TIMEOUT_S)
        if reply.status is not JobStatus.FINISHED:
            assert reply.error is not None, reply
            raise reply.error.to_job_error()
        schema = plan.relational[-1].schema
        return Finished(plan, schema, kept_rows(rows, to_arrow_schema(schema)).to_batches(), {})

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

    def _has_restarted(self, job_id: str) -> bool:
        details = self._children.details(job_id)
        return bool(details.restarts) and details.status is JobStatus.RUNNING

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
        """Kill a process that runs tasks of the job; it restarts unless it has ended."""
        details = self._children.details(job_id)
        places = {s.task_manager_id for vertex in details.vertices for s in vertex.subtasks}
        victims = [t.process_id for t in self._children.task_managers() if t.task_manager_id in places]
        if not victims:
            return
        victim = self._random.choice(sorted(victims))
        self.kills += not self._children.status(job_id).status.is_terminal
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

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
