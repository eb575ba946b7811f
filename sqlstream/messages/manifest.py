"""What makes a checkpoint complete: the state of every subtask, of every source, and the commits that it brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sqlstream.bounds import Count, Int64, Millis, Parallelism
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.operator_inputs import OperatorInputs
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.kept_formats import CHECKPOINTS
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable

MANIFEST_VERSION = CHECKPOINTS.version

ARTIFACTS_DIRECTORY = "artifacts"
"""Where a savepoint has the files that go with its job, each under its digest."""


class OperatorIdentity(msgspec.Struct, frozen=True):
    """An operator of the job that was saved. `state` finds its state in another job; without it `uid` does, in a job of the same
    plan. `inputs` are the ids of the operators that each of its inputs reads; None in manifests that do not tell. `name` and
    `description` are for people."""

    id: Count
    uid: str
    name: str
    description: str = ""
    state: StateIdentity | None = None
    inputs: OperatorInputs | None = None

    @property
    def title(self) -> str:
        """The operator as a user knows it."""
        return self.state.title if self.state is not None else self.description or self.name


class VertexState(msgspec.Struct, frozen=True):
    """One vertex with the state of all its subtasks, in their order. `finished` says of each whether it had: its state is empty,
    and what its sinks wrote for the end of the job is in the commits."""

    vertex_id: str
    name: str
    parallelism: Parallelism
    max_parallelism: Parallelism
    operators: tuple[OperatorIdentity, ...]
    subtasks: tuple[SubtaskState, ...]
    finished: tuple[bool, ...]

    @property
    def is_source(self) -> bool:
        """Whether one of its subtasks has saved positions of a reader."""
        return any(state.splits is not None for state in self.subtasks)


class SavedSplits(msgspec.Struct, frozen=True):
    """What no reader of a vertex had got: splits with their weights, those that readers have given back, and for each reader
    which of the positions that it saved are another's. `enumerator` is the state of the connector's own."""

    is_discovered: bool
    is_last: bool
    is_on_demand: bool
    holds_watermark: bool
    unassigned: tuple[tuple[dict[str, Any], Count], ...]
    enumerator: Any
    returned: tuple[dict[str, Any], ...]
    left_out: tuple[tuple[dict[str, Any], ...], ...]


class SavedCommit(msgspec.Struct, frozen=True):
    """What one sink has to commit for checkpoint `checkpoint_id`: the manifest's own, or an earlier one whose commit was still
    under way. A restore repeats it."""

    checkpoint_id: Int64
    vertex_id: str
    operator_id: Count
    spec: SinkSpec
    committables: tuple[Committable, ...]


class CheckpointManifest(msgspec.Struct, frozen=True):
    """A completed checkpoint or savepoint. Paths of segments are relative to the directory of the job's checkpoints, and in a
    savepoint to its own. `enumerators` by vertex id: the SavedSplits of each. `restored_from` is the path that the job began
    with, `config` its settings; `is_drained` when time has passed to its end before it. `artifacts` are the
    files that go with the job: a savepoint has them in ARTIFACTS_DIRECTORY. `committed_id` is the newest earlier checkpoint whose
    commit had begun: what is older than that is nothing to go back to. Times are of the wall clock."""

    job_id: str
    job_name: str
    checkpoint_id: Count
    kind: CheckpointKind
    started_ms: Millis
    completed_ms: Millis
    vertices: tuple[VertexState, ...]
    enumerators: dict[str, dict[str, Any]]
    commits: tuple[SavedCommit, ...]
    restored_from: str = ""
    config: dict[str, str] = {}
    version: Count = MANIFEST_VERSION
    is_drained: bool = False
    artifacts: tuple[Artifact, ...] = ()
    committed_id: Count = 0

    @property
    def begun_id(self) -> int:
        """The newest checkpoint whose commit may have begun since: one with which the manifest was stored, or an earlier one."""
        return max([self.committed_id, *(commit.checkpoint_id for commit in self.commits)])

    @property
    def has_in_flight(self) -> bool:
        """Whether items that were sent had not arrived: then the state behind them is not that of the manifest alone."""
        return any(state.in_flight for vertex in self.vertices for state in vertex.subtasks)

    def paths(self) -> frozenset[str]:
        """The files of state that it refers to."""
        return paths_of(state for vertex in self.vertices for state in vertex.subtasks)


def paths_of(states: Iterable[SubtaskState]) -> frozenset[str]:
    return frozenset(segment.path for state in states for segment in state.segments())
