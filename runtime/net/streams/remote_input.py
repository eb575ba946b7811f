"""The consumer's side of a channel whose producer runs in another process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.elements import CheckpointBarrier, Element, EndOfInput
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.credits import CreditWindow
from sqlstream.runtime.net.exchange import OnLost
from sqlstream.runtime.net.partition_table import SubpartitionId

if TYPE_CHECKING:
    from sqlstream.runtime.net.streams.producer_stream import ProducerStream


class RemoteInput(Channel):
    """Holds the items that have arrived, which the granted credit bounds; reading them grants more.

    The exchange's thread puts, the task's thread takes. State: the queue and the credit window, released by `close` or at the end
    of input."""

    def __init__(
        self, stream: ProducerStream, subpartition: SubpartitionId, window: CreditWindow, on_lost: OnLost
    ) -> None:
        super().__init__(capacity_bytes=sys.maxsize)
        self.subpartition = subpartition
        self.window = window
        self.schema: pa.Schema | None = None
        self.number = -1
        self._stream = stream
        self._on_lost = on_lost
        self.on_read = self._grant_again

    def close(self) -> None:
        super().close()
        self.window.release()
        self._stream.forget(self)

    # --- the loop's thread

    def on_batch(self, batch: pa.RecordBatch, size: int, backlog_bytes: int) -> None:
        self._stream.grant(self, self.window.on_received(backlog_bytes))
        self._put(batch, size)

    def on_element(self, element: Element) -> None:
        if isinstance(element, EndOfInput):
            self.window.release()
        if isinstance(element, CheckpointBarrier) and element.is_unaligned:
            try:
                self.put_first(element, 0, keeps_passed=True)
            except ChannelClosed:
                return
        else:
            self._put(element, 0)
            if isinstance(element, CheckpointBarrier) and element.overtakes_at_ms and self.on_timed:
                self.on_timed(element)

    def on_gone(self, cause: str) -> None:
        """No item follows, and the end of input has not come."""
        self.window.release()
        if not self.is_closed:
            self._on_lost(cause)

    def _put(self, item: pa.RecordBatch | Element, size: int) -> None:
        try:
            self.put(item, size)
        except ChannelClosed:
            # The task has ended; the producer is told.
            return

    # --- the task's thread

    def _grant_again(self, size: int) -> None:
        if size:
            self._stream.grant(self, self.window.on_read(size))
