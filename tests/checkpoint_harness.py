"""Manifests and saved state of a small job, for tests of the store."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from runtime.checkpoint.state_reader import StateReader
from runtime.checkpoint.state_writer import StateWriter
from runtime.host.private_files import PrivateFiles
from runtime.state.snapshot import OperatorSnapshot
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, SavedCommit, VertexState
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable
from sqlstream.types import BIGINT


class UnsyncedFiles(PrivateFiles):
    """A disk of tests that no machine crashes on."""

    def sync(self, stream: BinaryIO) -> None:
        stream.flush()


class StatesOnDisk:
    """What all subtasks of each operator have saved, by operator id, written as a checkpoint is; a restore at any parallelism
    reads its share. State: the files, in a directory of their own until this is forgotten."""

    def __init__(self, states: Mapping[int, Sequence[OperatorSnapshot]], is_compressed: bool) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._files = UnsyncedFiles()
        writer = StateWriter(self._files, self._directory.name, is_compressed=is_compressed)
        subtasks = max((len(snapshots) for snapshots in states.values()), default=0)
        self._saved = tuple(
            SubtaskState(writer.write(f"s-{n}-1", {id: of[n] for id, of in states.items() if n < len(of)}))
            for n in range(subtasks)
        )

    def share(
        self, operator_id: int, subtask: int, parallelism: int, max_parallelism: int
    ) -> OperatorSnapshot:
        reader = StateReader(self._files, TaskRestore(1, self._directory.name, self._saved))
        found = reader.operator(operator_id, key_groups_of(subtask, parallelism, max_parallelism))
        assert found is not None
        return found


JOB_ID = "0123456789abcdef0123456789abcdef"
VERTEX_ID = "90bea66de1c231edf33913ecd54406c1"
OPERATOR_ID = 7
SINK = SinkSpec(table="t", connector="filesystem", options={"path": "/out"}, schema=Schema.of(("n", BIGINT)))


def manifest(
    checkpoint_id: int,
    *subtasks: SubtaskState,
    kind: CheckpointKind = CheckpointKind.CHECKPOINT,
    **fields: Any,
) -> CheckpointManifest:
    """A job of one vertex with one operator, and a sink that has something to commit."""
    vertex = VertexState(
        VERTEX_ID,
        "GroupAggregate[7]",
        len(subtasks),
        128,
        (OperatorIdentity(OPERATOR_ID, "uid", "GroupAggregate", "groupBy=[k]"),),
        subtasks,
        (False,) * len(subtasks),
        ((),) * len(subtasks),
    )
    committable = Committable(JOB_ID, checkpoint_id, "writer", 0, {"files": []})
    commit = SavedCommit(checkpoint_id, VERTEX_ID, 9, SINK, (committable,))
    return CheckpointManifest(
        JOB_ID, "INSERT INTO t", checkpoint_id, kind, 1_000, 2_000, (vertex,), {"source": {"seen": ["a"]}}, (commit,), **fields
    )  # fmt: skip
