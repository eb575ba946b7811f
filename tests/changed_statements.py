"""A statement that is stopped with a savepoint, and another one that goes on from it at another parallelism.

The tasks, the operators and the files of their state are the product's, and so is what finds the state of the old statement for
the new one; sources play rows by script, sinks record.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
from kept_checkpoints import KeptCheckpoint
from killed_jobs import STEPS_MAX, Completed, KilledDeployment, Story
from moved_jobs import PLANNED_PARALLELISM, Script, Scripted, Tape, at_parallelism, registered
from operator_harness import Row, kinds_and_rows
from oracle import duckdb_answer
from plan_harness import compile_script

from sqlstream.changelog import RowKind
from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.graph.operator_inputs import operator_inputs
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.messages.rpc import SinkCommittables
from sqlstream.planner.compile import CompiledPlan
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.restored_state import restorable_checkpoint
from sqlstream.spi.connector import OptionDescriptor, OptionType

OLD_PARALLELISM, NEW_PARALLELISM = 2, 3
DESCRIPTOR = msgspec.structs.replace(
    Scripted.descriptor, options=(OptionDescriptor("path", OptionType.STRING, "Means nothing."),)
)
_ADDING = (RowKind.INSERT, RowKind.UPDATE_AFTER)


class Recorded(Story):
    """Has what was committed by sink operator too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, is_unaligned=False)
        self.by_sink: dict[int, dict[str, list[pa.RecordBatch]]] = {}

    def commit(self, committables: Sequence[SinkCommittables], tape: Tape) -> None:
        super().commit(committables, tape)
        for sink in committables:
            written = self.by_sink.setdefault(sink.operator_id, {})
            written.update({c.key: tape.prepared[c.key] for c in sink.committables})

    def changes(self, graph: JobGraph, table: str) -> Counter[Row]:
        """How often each row was added to a table more than it was retracted."""
        ids = [o.id for o, spec in written_tables(graph) if spec.table == table]
        return net(b for id in ids for batches in self.by_sink.get(id, {}).values() for b in batches)


class OldLife(KilledDeployment):
    """Ends as soon as a checkpoint is complete that began when a third of the input was read. No split is read to its end before:
    tasks that run ahead of the others wait for the checkpoint."""

    def run_until_saved(self) -> None:
        tasks = [task for subtasks in self.tasks.values() for task in subtasks]
        for script in self.tape.all_scripts():
            script.stop = self.tape.fate.randint(len(script.steps) // 2, len(script.steps) - 1)
        for _ in range(STEPS_MAX):
            if self._completed_here:
                return
            if not self._pending and self._is_under_way() and self._can_begin():
                self._begin()
            self.tape.fate.choice(tasks).step()
            self._advance(self.tape.fate.randint(0, 5))
        raise AssertionError("no checkpoint was completed")

    def _is_under_way(self) -> bool:
        """Whether each table that is read is so to a third."""
        splits = [s for s in self.tape.scripts.values() if any(script.position for script in s)]
        return bool(splits) and all(
            3 * sum(s.position for s in scripts) > sum(len(s.steps) for s in scripts) for scripts in splits
        )


@dataclasses.dataclass(frozen=True)
class Planned:
    plan: CompiledPlan
    graph: JobGraph

    def answer(self, table: str, rows: Mapping[str, pa.Table]) -> Counter[Row]:
        """What a statement that writes the table has of these rows, by DuckDB."""
        (sink,) = (s for s in self.plan.relational if s.table.path.name == table)
        found = duckdb_answer(sink, sink.schema, dict(rows))
        return Counter(tuple(_plain(value) for value in row) for row in found)


def _plain(value: Any) -> Any:
    """Times as the milliseconds that batches have."""
    if not isinstance(value, datetime.datetime):
        return value
    return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1)


@dataclasses.dataclass(frozen=True)
class Stopped:
    """A job that was stopped: its savepoint, what it had written, and what it had read."""

    kept: KeptCheckpoint
    story: Recorded
    read: dict[str, pa.Table]


def planned(script: str) -> Planned:
    """The job of the only statement of a script that makes one."""
    (plan,) = compile_script(
        script, {"parallelism.default": str(PLANNED_PARALLELISM)}, {"scripted": DESCRIPTOR}
    )
    return Planned(plan, plan.job_graph)


def net(batches: Iterable[pa.RecordBatch]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for kind, row in kinds_and_rows(list(batches)):
        found[row] += 1 if kind in _ADDING else -1
    return found


def without_zeros(found: Counter[Row]) -> dict[Row, int]:
    return {row: n for row, n in found.items() if n}


def table_of(scripts: Sequence[Script], stops: Mapping[int, int]) -> pa.Table:
    """The rows of a table's splits, up to where those in `stops` stop."""
    batches = [step[0] for n, s in enumerate(scripts) for step in s.steps[: stops.get(n, len(s.steps))]]
    return pa.Table.from_batches(batches, scripts[0].steps[0][0].schema)


def stop_old(old: Planned, scripts: Mapping[str, list[Script]], seed: int, directory: Path) -> Stopped:
    """Run the statement until some checkpoint that is taken before its input has ended."""
    graph = at_parallelism(old.graph, OLD_PARALLELISM)
    with registered(), patch.object(Scripted, "descriptor", DESCRIPTOR):
        tape = _tape(scripts, seed)
        story = Recorded(directory)
        OldLife(graph, tape, story, 1_000).run_until_saved()
    completed = story.completed
    assert completed is not None
    story.commit(completed.finished_committables, tape)
    read = {}
    for vertex in graph.vertices:
        spec: Any = vertex.operators[0].spec
        if not graph.inputs_of(vertex.id):
            splits = [p for state in completed.states[vertex.id] for p in state.splits or ()]
            read[spec.table] = table_of(scripts[spec.table], {p["split"]: p["read"] for p in splits})
    manifest = _manifest(graph, completed)
    return Stopped(KeptCheckpoint(manifest, completed.directory, "savepoint"), story, read)


def restore_new(stopped: Stopped, new: Planned, *, ignores_unclaimed: bool = False) -> CompletedCheckpoint:
    """What the other statement finds in the savepoint; UserError when it leaves some of it out."""
    graph = at_parallelism(new.graph, NEW_PARALLELISM)
    return restorable_checkpoint(stopped.kept, graph, is_owned=False, ignores_unclaimed=ignores_unclaimed)


def run_new(
    restored: CompletedCheckpoint,
    new: Planned,
    scripts: Mapping[str, list[Script]],
    seed: int,
    directory: Path,
) -> Recorded:
    """Run the other statement to its end."""
    graph = at_parallelism(new.graph, NEW_PARALLELISM)
    with registered(), patch.object(Scripted, "descriptor", DESCRIPTOR):
        tape = _tape(scripts, seed)
        story = Recorded(directory)
        story.last_id = restored.checkpoint_id
        story.completed = _completed(graph, restored)
        assert KilledDeployment(graph, tape, story, 1_000_000).run_until_killed(is_last=True)
    return story


def _tape(scripts: Mapping[str, list[Script]], seed: int) -> Tape:
    copies = {name: [dataclasses.replace(s) for s in splits] for name, splits in scripts.items()}
    return Tape(copies, random.Random(seed))


def _manifest(graph: JobGraph, completed: Completed) -> CheckpointManifest:
    inputs = operator_inputs(graph)
    vertices = tuple(
        VertexState(
            v.id,
            v.name,
            v.parallelism,
            v.max_parallelism,
            tuple(
                OperatorIdentity(o.id, o.uid, o.name, o.description, o.state, inputs[o.id])
                for o in v.operators
            ),
            completed.states[v.id],
            completed.finished[v.id],
        )
        for v in graph.vertices
    )
    id = completed.checkpoint_id
    return CheckpointManifest("old", "old", id, CheckpointKind.SAVEPOINT, 1, 2, vertices, {}, ())


def _completed(graph: JobGraph, restored: CompletedCheckpoint) -> Completed:
    states: dict[str, tuple[SubtaskState, ...]] = {}
    finished: dict[str, tuple[bool, ...]] = {}
    for vertex in graph.vertices:
        found = restored.vertices.get(vertex.id)
        if found is None:
            states[vertex.id], finished[vertex.id] = (), (False,)
            continue
        positions = [p for own in found.positions for p in own or ()]
        is_source = any(own is not None for own in found.positions)
        first, *others = found.states
        if is_source:
            first = msgspec.structs.replace(first, splits=tuple(positions))
        states[vertex.id], finished[vertex.id] = (first, *others), found.finished
    is_own = {id: vertex.is_own for id, vertex in restored.vertices.items()}
    return Completed(restored.checkpoint_id, restored.directory, states, finished, (), is_own=is_own)
