"""What feeds what, in the job that was saved and in the one that goes on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sqlstream.errors import InternalError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.operator_inputs import operator_inputs, reached_inputs
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.specs import BackfillSpec, SinkSpec, SourceSpec, ValuesSpec, WatermarkAssignerSpec

Reached = dict[int, frozenset[tuple[int, int]]]


@dataclass(frozen=True)
class Claim:
    """An operator of a checkpoint, and the vertex that it was in."""

    vertex: VertexState
    operator: OperatorIdentity


@dataclass(frozen=True)
class Evidence:
    """A saved operator that one of the job goes on with. Whoever goes with it feeds its input `ordinal`, or, of a source, is fed
    by it."""

    claim: Claim
    ordinal: int
    is_source: bool


class Lineage:
    """Both graphs. That of the saved job is known when every operator of the manifest tells its inputs; otherwise one operator
    counts as fed by another when its tables are among those of the other."""

    def __init__(self, manifest: CheckpointManifest, job: JobGraph) -> None:
        operators = [o for v in manifest.vertices for o in v.operators]
        inputs = {o.id: o.inputs for o in operators if o.inputs is not None}
        self._enumerators = manifest.enumerators
        self._saved: Reached | None = reached_inputs(inputs) if len(inputs) == len(operators) else None
        self._present = {o.id: o for v in job.vertices for o in v.operators}
        read = operator_inputs(job)
        self._reached = reached_inputs(read)
        self.depths: dict[int, int] = {}
        for id in self._present:
            below = (self.depths.get(i, 0) for of_input in read[id] for i in of_input)
            self.depths[id] = max(below, default=0) + (self._present[id].state is not None)
        self._saved_uids = {o.id: o.uid for o in operators}
        present_uids = [o.uid for _, o in sorted(self._present.items())]
        self._is_same_plan = [uid for _, uid in sorted(self._saved_uids.items())] == present_uids

    def evidence(self, operator: ChainedOperator, claims: Mapping[int, Claim]) -> list[Evidence]:
        """What tells which state the operator goes on with: claims of operators that it feeds, or of a watermark's source. A sink
        goes on whatever feeds it."""
        if isinstance(operator.spec, WatermarkAssignerSpec):
            sources = (
                id
                for id in claims
                if isinstance(self._present[id].spec, SourceSpec | ValuesSpec | BackfillSpec)
            )
            read = (id for id in sources if any(d == operator.id for d, _ in self._reached[id]))
            return [Evidence(claims[id], 0, True) for id in read]
        return [
            Evidence(claims[id], ordinal, False)
            for id, ordinal in sorted(self._reached[operator.id])
            if id in claims and self._keeps_rows(id)
        ]

    def _keeps_rows(self, id: int) -> bool:
        operator = self._present[id]
        return operator.state is not None and not isinstance(operator.spec, SinkSpec | WatermarkAssignerSpec)

    def agrees(self, claim: Claim, evidence: Evidence) -> bool:
        if evidence.is_source:
            return self._feeds(evidence.claim, claim, None)
        return self._feeds(claim, evidence.claim, evidence.ordinal)

    def _feeds(self, above: Claim, below: Claim, ordinal: int | None) -> bool:
        if self._saved is not None:
            reached = self._saved[above.operator.id]
            return any(id == below.operator.id and ordinal in (None, at) for id, at in reached)
        own, others = above.operator.state, below.operator.state
        return own is None or others is None or set(others.feeds) <= set(own.feeds)

    def is_same(self, operator: ChainedOperator, claim: Claim) -> bool:
        """Whether it is the saved operator as it was, with all that it fed. Uids of equal operators count them, and so tell
        nothing alone."""
        if claim.operator.uid != operator.uid:
            return False
        if self._is_same_plan or self._saved is None:
            return self._is_same_plan
        fed = {self._saved_uids[id] for id, _ in self._saved[claim.operator.id]}
        return fed <= {self._present[id].uid for id, _ in self._reached[operator.id]}

    def position(self, claim: Claim) -> tuple[bytes, ...]:
        """Where a saved source stands: equal for two that have read the same rows."""
        splits = (p for state in claim.vertex.subtasks for p in state.splits or ())
        ahead = msgspec.json.encode(self._enumerators.get(claim.vertex.vertex_id), order="sorted")
        return (*sorted(msgspec.json.encode(p, order="sorted") for p in splits), ahead)


def state_of(operator: ChainedOperator) -> StateIdentity:
    if operator.state is None:
        raise InternalError(f"{operator.name} has no state")
    return operator.state


def feeds_same(state: StateIdentity, claim: Claim) -> bool:
    return claim.operator.state is not None and claim.operator.state.feeds == state.feeds


def feeds_some(state: StateIdentity, claim: Claim) -> bool:
    return claim.operator.state is not None and not set(state.feeds).isdisjoint(claim.operator.state.feeds)


def feeds_any(state: StateIdentity, claim: Claim) -> bool:
    return True
