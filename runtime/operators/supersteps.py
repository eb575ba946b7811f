"""An operator whose rows make other rows, in rounds that are those of all of its subtasks."""

from __future__ import annotations

import pyarrow as pa

from sqlstream import config as options
from sqlstream.elements import HAND_OVER, WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.operators.held_rows import HoldingOperator
from sqlstream.runtime.operators.operator import OperatorContext, Output, SpecT
from sqlstream.runtime.operators.peers import Peers

WAIT_MS = 100
"""How long rows may wait for others while the task has other work."""


class SuperstepOperator(HoldingOperator[SpecT]):
    """Runs rounds for the rows that have come since it did last: at `flush`, and when they are many or old enough. So a barrier,
    a watermark and the end of the input find no row on its way.

    With peers a round is one of all subtasks: each makes rows of those that it has, and then they exchange them, so that each
    row is decided about in one subtask. No subtask begins a round before all have ended the one before, and all run the same.
    So what happens to a row is what happened to it in one subtask. See `Peers` for when they run.

    State: how many rows have come, and since when.
    """

    def __init__(self, spec: SpecT, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._since_ms = 0
        self._peers = context.peers
        # Rows that have come since the last rounds.
        self._fed = 0
        self._was_idle = self._has_handed_over = False
        self._bytes_max = int(options.get(context.config, "sqlstream.recursion.max-pending-bytes"))
        self._rows_min = int(options.get(context.config, "execution.batch-rows"))

    # -- what operators say ------------------------------------------------------------------------

    def _feed(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Take rows of an input, for the next rounds."""
        raise NotImplementedError

    @property
    def _waiting_alone(self) -> int:
        """How many rows may make others, without peers."""
        raise NotImplementedError

    def _run_alone(self, output: Output) -> None:
        """All rounds, without peers."""
        raise NotImplementedError

    def _run_together(self, peers: Peers, output: Output) -> None:
        """All rounds of all peers, each of which calls this: the same exchanges in the same order."""
        raise NotImplementedError

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if not self._waiting_rows:
            self._since_ms = self.context.now_ms()
        self._feed(batch, input_index)
        self._fed += batch.num_rows
        if self._waiting_rows >= self._rows_min:
            self.flush(output)

    @property
    def _waiting_rows(self) -> int:
        """How many may make others. What tables make waits for the next superstep where it is made."""
        return self._waiting_alone if self._peers is None else self._fed

    def next_processing_time_ms(self) -> int | None:
        return self._since_ms + WAIT_MS if self._waiting_rows else None

    def flush(self, output: Output) -> None:
        if self._peers is None:
            self._run_alone(output)
            self._fed = 0
        elif self._fed or self._peers.is_called:
            self._superstep(self._peers, output)

    # -- among peers -------------------------------------------------------------------------------

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._peers is None:
            return super().on_watermark(watermark_ms, output)
        self._peers.watermark_ms = watermark_ms
        self._superstep(self._peers, output)
        return None

    def on_hand_over(self, output: Output) -> bool:
        """Others are told when the histories of all peers have ended: rows of those make rows here until then."""
        if self._peers is None:
            return super().on_hand_over(output)
        self._peers.watermark_ms = max(self._peers.watermark_ms, HAND_OVER)
        self._superstep(self._peers, output)
        return False

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        if self._peers is None:
            return super().on_idle(is_idle, output)
        self._peers.is_idle = is_idle
        self._superstep(self._peers, output)
        return None

    def prepare_snapshot(self, output: Output) -> None:
        """Serve the others until all have come to the barrier."""
        if self._peers is not None:
            self._stand(self._peers, output)

    def on_finish(self, output: Output) -> None:
        if self._peers is None:
            super().on_finish(output)
        else:
            self._peers.end()
            self._stand(self._peers, output)
            self._peers.leave()

    def close(self) -> None:
        if self._peers is not None:
            self._peers.leave()

    def _stand(self, peers: Peers, output: Output) -> None:
        while peers.stands_alone:
            peers.wait()
            self._superstep(peers, output)

    def _superstep(self, peers: Peers, output: Output) -> None:
        self._fed = 0
        self._run_together(peers, output)
        peers.settle()
        if peers.are_idle and not self._was_idle:
            output.emit_idle(True)
        self._tell_time(peers.combined_watermark_ms, output)
        if self._was_idle and not peers.are_idle:
            output.emit_idle(False)
        self._was_idle = peers.are_idle

    def _tell_time(self, watermark_ms: int, output: Output) -> None:
        if watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
            return
        if watermark_ms != HAND_OVER or not self._has_handed_over:
            output.emit_watermark(watermark_ms)
        self._has_handed_over = True
