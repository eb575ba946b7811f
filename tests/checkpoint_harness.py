"""Manifests and saved state of a small job, for tests of the store."""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import (
    CheckpointManifest,
    OperatorIdentity,
    SavedCommit,
    SavedSplits,
    VertexState,
)
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable
from sqlstream.types import BIGINT

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
    subtasks = subtasks or (SubtaskState(),)
    vertex = VertexState(
        VERTEX_ID,
        "GroupAggregate[7]",
        len(subtasks),
        128,
        (OperatorIdentity(OPERATOR_ID, "uid", "GroupAggregate", "groupBy=[k]"),),
        subtasks,
        (False,) * len(subtasks),
    )
    committable = Committable(JOB_ID, checkpoint_id, "writer", 0, {"files": []})
    commit = SavedCommit(checkpoint_id, VERTEX_ID, 9, SINK, (committable,))
    splits = SavedSplits(
        True, True, False, False, (({"file": "a"}, 1),), {"seen": ["a"]}, (), ((),) * len(subtasks)
    )
    enumerators = {VERTEX_ID: msgspec.json.decode(msgspec.json.encode(splits))}
    return CheckpointManifest(
        JOB_ID,
        "INSERT INTO t",
        checkpoint_id,
        kind,
        1_000,
        2_000,
        (vertex,),
        enumerators,
        (commit,),
        **fields,
    )
