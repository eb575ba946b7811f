"""What the JobGraph for another parallelism follows from: operators and exchanges as they were planned, before either got a
parallelism."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count
from sqlstream.graph.stream_graph import Exchange


class PlannedInput(msgspec.Struct, frozen=True):
    """The distribution that an operator requires of an input. FORWARD: any. `source` is the place of the node that is read."""

    source: Count
    exchange: Exchange


class PlannedNode(msgspec.Struct, frozen=True):
    """One operator by its id in the graphs, or a UNION ALL, which becomes several edges: `operator` is 0. `parallelism` > 0 is
    fixed; 0 means that of the job behind a HASH exchange, else that of the FORWARD inputs. `is_insert_only`: the rows that it
    emits may come in any order."""

    operator: Count
    inputs: tuple[PlannedInput, ...]
    parallelism: Count
    is_insert_only: bool


class Scaling(msgspec.Struct, frozen=True):
    """Nodes in topological order, inputs before their consumers. `parallelism` is that of all operators that have no fixed
    one."""

    parallelism: Count
    nodes: tuple[PlannedNode, ...]
