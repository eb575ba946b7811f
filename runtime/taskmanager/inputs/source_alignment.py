"""What one reader does so that tables wait for each other by their watermarks."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream import config
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.messages.rpc import TaskDeploymentDescriptor
from sqlstream.runtime.host.clock import steady_ms
from sqlstream.runtime.operators.watermark_assigner import WatermarkAssigner
from sqlstream.runtime.taskmanager.events import WatermarkReported
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
from sqlstream.specs import SourceSpec
from sqlstream.specs.backfill import turn_of, waiting_alignment
from sqlstream.specs.watermark import Alignment, WatermarkAssignerSpec
from sqlstream.spi.connector import AlignsSplits, SourceReader

REPORT_GAP_MS = 10
"""How soon after a report a reader that will have to wait says again where it is."""


class SourceAlignment:
    """Says where the reader is, at each interval and when half of the drift is left; stops it beyond what it was last told. Until
    then it goes on while it has no watermark.

    `progress` gives the watermark that the source has emitted, and whether it is idle. A message that is lost costs an interval.
    State: what was last reported and when, and how far the reader may go."""

    def __init__(
        self,
        execution_id: str,
        alignment: Alignment,
        reader: SourceReader,
        progress: Callable[[], tuple[int, bool]],
        report: Callable[[WatermarkReported], None],
        steady_ms: Callable[[], int],
    ) -> None:
        self._execution_id = execution_id
        self._interval_ms, self._max_drift_ms = alignment.update_interval_ms, alignment.max_drift_ms
        self._reader = reader if isinstance(reader, AlignsSplits) else None
        self._progress, self._report, self._steady_ms = progress, report, steady_ms
        self._reported_at_ms = steady_ms() - self._interval_ms
        self._reported_ms = self._allowed_ms = WATERMARK_MIN
        self.on_allowed(WATERMARK_MIN)

    def may_read(self) -> bool:
        """Report if it is time to, before each poll."""
        watermark_ms, is_idle = self._progress()
        now_ms = self._steady_ms()
        if now_ms >= self._due_ms(watermark_ms):
            self._reported_at_ms, self._reported_ms = now_ms, watermark_ms
            self._report(WatermarkReported(self._execution_id, watermark_ms, is_idle))
        return watermark_ms <= self._allowed_ms

    def _due_ms(self, watermark_ms: int) -> int:
        is_news = watermark_ms > max(self._allowed_ms - self._max_drift_ms // 2, self._reported_ms)
        pause_ms = min(REPORT_GAP_MS, self._interval_ms) if is_news else self._interval_ms
        return self._reported_at_ms + pause_ms

    def due_s(self) -> float:
        """How long until the next report."""
        watermark_ms, _ = self._progress()
        return max(0, self._due_ms(watermark_ms) - self._steady_ms()) / 1000

    def on_end(self) -> None:
        """Its task may still have to do, and nobody waits for it."""
        self._report(WatermarkReported(self._execution_id, WATERMARK_MAX, is_idle=True))

    def on_allowed(self, watermark_ms: int) -> None:
        self._allowed_ms = watermark_ms
        if self._reader is not None:
            self._reader.align(watermark_ms)


class WaitForHistory(SourceAlignment):
    """Holds a table until the histories of its group have ended, or one of these until those of lower turns have, and then lets
    it go for ever.

    All are where no event time is, each as many milliseconds ahead of the first history as its turn says."""

    def may_read(self) -> bool:
        return self._is_its_turn or super().may_read()

    def due_s(self) -> float:
        return self._interval_ms / 1000 if self._is_its_turn else super().due_s()

    @property
    def _is_its_turn(self) -> bool:
        return self._allowed_ms >= self._progress()[0]

    def on_allowed(self, watermark_ms: int) -> None:
        self._allowed_ms = max(self._allowed_ms, watermark_ms)


def source_alignment(
    task: TaskDeploymentDescriptor,
    reader: SourceReader,
    chain: OperatorChain,
    report: Callable[[WatermarkReported], None],
) -> SourceAlignment | None:
    """None for a table that waits for nobody. UserError SS4003 when the watermark is made by another task than the reader's."""
    head, *behind = task.vertex.operators
    group = waiting_alignment(head.spec)
    if group is not None:
        turn = turn_of(head.spec)
        kind = WaitForHistory if turn else SourceAlignment
        place = (WATERMARK_MIN + turn, False)
        return kind(task.execution_id, group, reader, lambda: place, report, steady_ms)
    alignment = Alignment.of(head.spec.options) if isinstance(head.spec, SourceSpec) else None
    if alignment is None or config.get(task.config, "execution.runtime-mode") == "BATCH":
        return None
    assert isinstance(head.spec, SourceSpec)
    assigner = next((o.id for o in behind if isinstance(o.spec, WatermarkAssignerSpec)), None)
    if assigner is None:
        raise UserError(
            "SS4003",
            f'table "{head.spec.table}" cannot wait for others: its watermark is made by another task',
            hint="SET 'pipeline.operator-chaining.enabled' = 'true'",
        )

    def progress() -> tuple[int, bool]:
        made = next(node.operator for node in chain.nodes if node.chained.id == assigner)
        assert isinstance(made, WatermarkAssigner)
        return made.progress

    return SourceAlignment(task.execution_id, alignment, reader, progress, report, steady_ms)
