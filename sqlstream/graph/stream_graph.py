"""The StreamGraph: operators and the exchanges between them, before chaining (Flink: StreamGraph)."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.bounds import Count
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.schema import Schema
from sqlstream.specs import Spec


class ExchangeKind(enum.Enum):
    """How rows find their subtask. SINGLETON: all to subtask 0 (Flink: GLOBAL)."""

    FORWARD = "FORWARD"
    HASH = "HASH"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    BROADCAST = "BROADCAST"
    SINGLETON = "SINGLETON"


class Exchange(msgspec.Struct, frozen=True):
    """HASH names its key columns; equal keys meet in one subtask through their key group."""

    kind: ExchangeKind
    keys: tuple[Count, ...] = ()

    def __str__(self) -> str:
        return f"HASH({', '.join(f'${k}' for k in self.keys)})" if self.keys else self.kind.value


FORWARD = Exchange(ExchangeKind.FORWARD)


class StreamEdge(msgspec.Struct, frozen=True):
    """From node `source` into input `ordinal` of the node that holds the edge; several edges of one ordinal are a union."""

    source: Count
    ordinal: Count = 0
    exchange: Exchange = FORWARD


SLOT_SHARING_GROUP = "slot-sharing-group"
"""The option of a table whose operators share slots with those of the same group alone."""

DEFAULT_GROUP = "default"


class StreamNode(msgspec.Struct, frozen=True):
    """One operator. `uid` is the digest of spec and inputs; `state` finds its state again, None without state. `description` is
    EXPLAIN's text. Operators of different slot sharing groups run in different slots."""

    id: Count
    uid: str
    name: str
    spec: Spec
    inputs: tuple[StreamEdge, ...]
    output_schema: Schema
    output_mode: ChangelogMode
    parallelism: Count
    max_parallelism: Count
    description: str = ""
    span: Span | None = None
    state: StateIdentity | None = None
    slot_sharing_group: str = DEFAULT_GROUP


class StreamGraph(msgspec.Struct, frozen=True):
    """Nodes in topological order, inputs before their consumers."""

    nodes: tuple[StreamNode, ...]

    def node(self, id: int) -> StreamNode:
        return next(n for n in self.nodes if n.id == id)
