"""What a checkpoint must hold: the state of a job is that after the rows which its sources have read, and no other."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simulated_tasks import Row, count_vertex, counted_rows, part_rows, parts_of, rows_behind

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import TaskRestore
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
from sqlstream.spi.files import Files

MAX_PARALLELISM = 128


def read_rows(job: JobGraph, manifest: CheckpointManifest) -> dict[int, int]:
    """How many rows of each part its readers had read."""
    source = job.vertices[0]
    saved = next(v for v in manifest.vertices if v.vertex_id == source.id)
    # What nobody has is read to its end.
    read = {part: len(part_rows(part)) for part in range(parts_of(source))}
    positions: list[dict[str, Any]] = [p for s in saved.subtasks for p in s.splits or ()]
    if (unread := manifest.enumerators.get(source.id)) is not None:
        positions += [position for position, _ in unread["unassigned"]]
        state = unread["enumerator"]
        left = state["left"] if state is not None else range(parts_of(source))
        positions += [{"part": part} for part in left]
    parts = [p["part"] for p in positions]
    assert len(parts) == len(set(parts)), f"checkpoint {manifest.checkpoint_id} has a part twice: {positions}"
    return read | {p["part"]: p.get("row", 0) for p in positions}


def output_behind(job: JobGraph, read: dict[int, int]) -> dict[Row, int]:
    """What is visible once so many rows of each part have reached the sink."""
    return dict(Counter(rows_behind(job, read)))


def check_state(job: JobGraph, manifest: CheckpointManifest, files: Files, directory: str) -> None:
    """The saved counts are those of the rows that were read."""
    counting = count_vertex(job)
    if counting is None or manifest.has_in_flight:
        return
    saved = next(v for v in manifest.vertices if v.vertex_id == counting.id)
    restore = TaskRestore(manifest.checkpoint_id, directory, saved.subtasks)
    state = StateReader(files, restore).operator(counting.operators[0].id, range(MAX_PARALLELISM))
    batches = state.batches("groups") if state is not None else []
    found = {
        key: count
        for batch in batches
        for key, count in zip(*(c.to_pylist() for c in batch.columns[FIXED_COLUMNS:]), strict=True)
    }
    wanted = counts(job, read_rows(job, manifest))
    assert found == wanted, (
        f"checkpoint {manifest.checkpoint_id} of {job.job_id} has counted {found} of {wanted}"
    )


def check_restored(job: JobGraph, manifest: CheckpointManifest, chain: OperatorChain) -> None:
    """What a task has loaded is of the checkpoint that it goes on from."""
    counting = count_vertex(job)
    if counting is None or manifest.has_in_flight:
        return
    wanted = counts(job, read_rows(job, manifest))
    for node in chain.nodes:
        if node.chained.id == counting.operators[0].id:
            table: Any = node.operator.context.state.tables[0]
            keys, numbers = table.saved(table.slots())[1]
            for key, number in zip(keys.to_pylist(), numbers.to_pylist(), strict=True):
                assert wanted.get(key) == number, f"{key} was {wanted.get(key)}, and is restored as {number}"


def counts(job: JobGraph, read: dict[int, int]) -> dict[str, int]:
    return dict(Counter(key for key, _ in counted_rows(job, read)))
