"""What event time of a simulated job must hold: at its operators while they run, in its checkpoints, and behind a restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulated_event_time import emitted, may_be_late, may_pause
from simulated_tasks import Row, SimulatedTask

from sqlstream.elements import WATERMARK_MIN
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import TaskRestore
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.specs import WindowAggregateSpec
from sqlstream.spi.files import Files

MAX_PARALLELISM = 128


class EventTimeWatch:
    """No watermark goes back at the output of an operator, neither while it runs nor behind a restore, and no row that was on
    time is late.

    State: how far each window of each checkpoint had come, subtask by subtask. How far the attempt of a task has come stands in
    its `reached`."""

    def __init__(self) -> None:
        self._saved: dict[tuple[str, int], dict[int, list[int]]] = {}

    def add_manifest(self, job: JobGraph, manifest: CheckpointManifest, files: Files, directory: str) -> None:
        """It is about to be stored: behind an aligned barrier all subtasks of a window have come as far, unless channels were
        idle, which each may have heard of at another time."""
        saved = self._saved[manifest.job_id, manifest.checkpoint_id] = {}
        for vertex in manifest.vertices:
            for operator in vertex.operators:
                if not _is_window(job, operator.id):
                    continue
                times = []
                for subtask, state in enumerate(vertex.subtasks):
                    if vertex.finished[subtask]:
                        continue
                    restore = TaskRestore(manifest.checkpoint_id, directory, (state,))
                    found = StateReader(files, restore).operator(operator.id, range(MAX_PARALLELISM))
                    table = found.shared.get("closed_ms") if found is not None else None
                    times.append(min(table.column(0).to_pylist()) if table is not None else WATERMARK_MIN)
                saved[operator.id] = times
                if not manifest.has_in_flight and not may_pause(job):
                    assert len(set(times)) <= 1, (
                        f"checkpoint {manifest.checkpoint_id} of {job.job_id}: nothing is in flight, and the subtasks of "
                        f"{operator.id} have come to {times}"
                    )

    def forget(self, manifest: CheckpointManifest) -> None:
        """One of this id is stored that nobody can look at: an earlier one was never complete."""
        self._saved.pop((manifest.job_id, manifest.checkpoint_id), None)

    def on_running(self, task: SimulatedTask, manifest: CheckpointManifest) -> None:
        """A task has loaded what it goes on from."""
        saved = self._saved.get((manifest.job_id, manifest.checkpoint_id), {})
        descriptor = task.descriptor
        for node in task.chain.nodes:
            times = saved.get(node.chained.id)
            if not times or not isinstance(node.operator, ClosingOperator):
                continue
            is_own = len(times) == descriptor.vertex.parallelism
            least = times[descriptor.subtask] if is_own else min(times)
            name = f"{descriptor.execution_id}: {node.chained.name}"
            assert node.operator.closed_ms >= least, (
                f"{name} goes back from {least} to {node.operator.closed_ms}"
            )
            if is_own:
                assert node.operator.closed_ms == least, (
                    f"{name} goes on at {node.operator.closed_ms} from {least}"
                )
            task.reached[node.chained.id] = least

    def look(self, job: JobGraph, task: SimulatedTask) -> None:
        """A task has made a step."""
        for node in task.chain.nodes:
            if not isinstance(node.operator, ClosingOperator):
                continue
            id, execution_id = node.chained.id, task.descriptor.execution_id
            reached_ms = node.counters.watermark_ms
            if reached_ms != WATERMARK_MIN:
                before_ms = task.reached.get(id, WATERMARK_MIN)
                assert reached_ms >= before_ms, (
                    f"{execution_id}: the watermark behind {node.chained.name} goes back from {before_ms} to {reached_ms}"
                )
                task.reached[id] = reached_ms
            if not may_be_late(job):
                late = node.counters.read().get(LATE, 0)
                assert not late, f"{execution_id}: {late} rows are late for {node.chained.name}"


def check_windows(job: JobGraph, found: Mapping[Row, int]) -> None:
    """Each window that is visible is so once, with all its rows; with those that were not late where some may be."""
    wanted = emitted(job)
    if not may_be_late(job):
        wrong = [
            f"{row} {times} times instead of {wanted.get(row, 0)}"
            for row, times in sorted(found.items())
            if not 0 < times <= wanted.get(row, 0)
        ]
        assert not wrong, f"{job.job_id} shows {', '.join(wrong)}"
        return
    most = {name: (n, times) for (name, n), times in wanted.items()}
    seen: set[str] = set()
    for (name, n), times in sorted(found.items()):
        rows, copies = most.get(name, (0, 0))
        assert n <= rows, f"{job.job_id} shows {name} with {n} of {rows} rows {times} times"
        assert 0 < times <= copies, f"{job.job_id} shows {name} {times} times instead of {copies}"
        assert name not in seen, f"{job.job_id} has emitted {name} twice"
        seen.add(name)


def _is_window(job: JobGraph, operator_id: int) -> bool:
    specs: dict[int, Any] = {o.id: o.spec for v in job.vertices for o in v.operators}
    return isinstance(specs.get(operator_id), WindowAggregateSpec)
