"""How far each reader of a group may go: its tables wait for each other by their watermarks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import ReportWatermark
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.specs import SourceSpec
from sqlstream.specs.backfill import waiting_alignment
from sqlstream.specs.watermark import Alignment


@dataclass(frozen=True)
class _Progress:
    """Where an attempt has said that it is, and how far it was told to go."""

    watermark_ms: int
    is_idle: bool
    told_ms: int


class WatermarkAlignment:
    """The watermark of a reader may be `max_drift_ms` of its table ahead of the lowest watermark in its group. Pure.

    A reader that is idle, or has read everything, holds nobody. One that has not said where it is, or has no watermark yet, holds
    all others where they are. State: what the present attempts have said, and were told, last. A checkpoint has none of it: an
    attempt that goes on from one says where it is before it reads."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._read: JobGraph | None = None
        self._alignments: dict[str, Alignment] = {}
        self._progress: dict[str, _Progress] = {}

    def on_report(
        self, subtask: ExecutionVertex, report: ReportWatermark
    ) -> list[tuple[ExecutionVertex, int]]:
        """The highest watermark that this reader may reach, and those others that have waited and need not do so any more."""
        alignment = self._groups().get(subtask.vertex.id)
        if alignment is None:
            return []
        self._progress[report.execution_id] = _Progress(report.watermark_ms, report.is_idle, WATERMARK_MIN)
        readers = self._readers(alignment.group)
        lowest_ms = self._lowest_ms([reader for reader, _ in readers])
        told = []
        for reader, drift_ms in readers:
            progress = self._progress.get(reader.execution.execution_id)
            if progress is None:
                continue
            is_open = lowest_ms in (WATERMARK_MIN, WATERMARK_MAX)
            allowed_ms = lowest_ms if is_open else min(lowest_ms + drift_ms, WATERMARK_MAX)
            if reader is subtask or progress.told_ms < progress.watermark_ms <= allowed_ms:
                self._progress[reader.execution.execution_id] = replace(progress, told_ms=allowed_ms)
                told.append((reader, allowed_ms))
        return told

    def _readers(self, group: str) -> list[tuple[ExecutionVertex, int]]:
        """Those that have not ended, with the drift of their table."""
        return [
            (subtask, alignment.max_drift_ms)
            for vertex_id, alignment in self._alignments.items()
            if alignment.group == group
            for subtask in self._graph.vertices[vertex_id]
            if subtask.execution.state is not ExecutionState.FINISHED
        ]

    def _lowest_ms(self, readers: list[ExecutionVertex]) -> int:
        """WATERMARK_MAX when nobody holds the others."""
        unknown = _Progress(WATERMARK_MIN, is_idle=False, told_ms=WATERMARK_MIN)
        said = [self._progress.get(reader.execution.execution_id, unknown) for reader in readers]
        return min((p.watermark_ms for p in said if not p.is_idle), default=WATERMARK_MAX)

    def _groups(self) -> dict[str, Alignment]:
        """The alignment of each source that has one, by its vertex. The graph is another one after a rescale."""
        job_graph = self._graph.job_graph
        if self._read is not job_graph:
            self._read = job_graph
            heads = {v.id: v.operators[0].spec for v in job_graph.vertices}
            found = {
                v: waiting_alignment(s) or (Alignment.of(s.options) if isinstance(s, SourceSpec) else None)
                for v, s in heads.items()
            }
            self._alignments = {v: alignment for v, alignment in found.items() if alignment is not None}
        if len(self._progress) > 2 * sum(len(self._graph.vertices[v]) for v in self._alignments):
            present = {e.execution_id for e in self._graph.executions()}
            self._progress = {id: p for id, p in self._progress.items() if id in present}
        return self._alignments
