"""Connector `collect`: the rows of a SELECT, on their way to the client that submitted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.connectors.sink_only import SinkOnlyConnector
from sqlstream.changelog import ChangelogMode
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec


class Collect(SinkOnlyConnector):
    """A sink without format or options, which takes every change and hands on row kinds as they are."""

    descriptor = ConnectorDescriptor(
        identifier="collect",
        options=(),
        is_source=False,
        is_sink=True,
        sink_mode=ChangelogMode.RETRACT,
        is_internal=True,
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return CollectWriter(context)


class CollectWriter:
    """Hand every batch to the client as it comes; waits while the client is behind. No state."""

    def __init__(self, context: ConnectorContext) -> None:
        self._emit = context.emit_result

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._emit(batch)

    def finish(self) -> list[dict[str, Any]]:
        return []

    def abort(self) -> None:
        """What the client has been given, it has."""
