"""Connector `blackhole`: a sink that accepts every change and keeps none, to measure the query alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.connectors.sink_only import SinkOnlyConnector
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter, Writing

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


class Blackhole(SinkOnlyConnector):
    """A sink without format or options."""

    descriptor = ConnectorDescriptor(
        identifier="blackhole", options=(), writing=Writing(mode=ChangelogMode.RETRACT, takes_upserts=True)
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return BlackholeWriter()


class BlackholeWriter:
    """No state."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Drop the rows."""

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return []

    def abort(self) -> None:
        """Nothing to do: nothing was written."""
