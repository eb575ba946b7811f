"""Column pruning over a whole statement set: unread columns are not computed, and shared ones are computed once."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import InputRef
from sqlstream.planner.physical.node import Columns
from sqlstream.planner.relational.node import one_column
from sqlstream.planner.relational.nodes import Project, RelationalNode, Sink, TableScan, Watermark

Trimmed = tuple[RelationalNode, dict[int, int]]


def prune_columns(sinks: tuple[Sink, ...], is_reuse_enabled: bool = True) -> tuple[Sink, ...]:
    """Narrow every operator and scan to the columns that reach a sink or decide about rows.

    With reuse, equal sources (a scan and the watermark on it) are narrowed to the union of the columns that their consumers
    read. So they stay equal, and the table is read once. A watermark that no operator uses is dropped.
    """
    pruning = _Pruning()
    if is_reuse_enabled:
        pruning.is_collecting = True
        for sink in sinks:
            pruning.trim_sink(sink)
        pruning.is_collecting = False
    return tuple(pruning.trim_sink(sink) for sink in sinks)


@dataclasses.dataclass
class _Demand:
    columns: Columns = frozenset()
    needs_watermark: bool = False


class _Pruning:
    """One walk per pass. The first pass collects in `demands` the columns that are read of each source; the last narrows
    each source to their union."""

    def __init__(self) -> None:
        self.demands: dict[RelationalNode, _Demand] = {}
        self.is_collecting = False
        self._trimmed: dict[tuple[RelationalNode, Columns, bool, bool], Trimmed] = {}

    def trim_sink(self, sink: Sink) -> Sink:
        made, _ = sink.trim(self, frozenset(), False)
        assert isinstance(made, Sink)
        return made

    def exactly(self, node: RelationalNode, wanted: Columns, time: bool) -> RelationalNode:
        """`node` with exactly the wanted columns in ascending order, as before an exchange."""
        wanted = wanted or one_column(node.schema)
        trimmed, places = self.trim(node, wanted, time)
        order = [places[c] for c in sorted(wanted)]
        if order == list(range(len(trimmed.schema))):
            return trimmed
        fields = trimmed.schema.fields
        return Project(
            schema=trimmed.schema.select(tuple(order)),
            span=node.span,
            input=trimmed,
            expressions=tuple(InputRef(i, fields[i].type) for i in order),
        )

    def trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        """`node` with at least the wanted columns; equal requests get the same node. `time`: an operator above needs the
        watermark of this input."""
        key = (node, wanted, time, self.is_collecting)
        if key not in self._trimmed:
            self._trimmed[key] = self._trim(node, wanted, time)
        return self._trimmed[key]

    def _trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        if isinstance(node, Project) and not wanted:
            # COUNT(*) reads no column, so nothing needs to be computed.
            return self.trim(node.input, wanted, time)
        wanted = wanted or one_column(node.schema)
        if is_source(node):
            demand = self._demand(node, wanted, time)
            wanted, time = demand.columns, demand.needs_watermark
        return node.trim(self, wanted, time)

    def _demand(self, node: RelationalNode, wanted: Columns, time: bool) -> _Demand:
        demand = self.demands.setdefault(node, _Demand())
        if self.is_collecting:
            demand.columns |= wanted
            demand.needs_watermark |= time
        return _Demand(demand.columns | wanted, demand.needs_watermark or time)


def is_source(node: RelationalNode) -> bool:
    """Whether `node` is a source: a scan, or a watermark over a scan, with or without computed columns in between."""
    if isinstance(node, Watermark):
        node = node.input.input if isinstance(node.input, Project) else node.input
    return isinstance(node, TableScan)
