"""Sinks without format, options and a place: `blackhole` and `collect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.changelog import ChangelogMode
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter, Writing
from sqlstream.spi.one_sided import SinkOnlyConnector

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


class Blackhole(SinkOnlyConnector):
    """Accepts every change and keeps none, to measure the query alone. Without format and options."""

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


class Collect(SinkOnlyConnector):
    """Sends the rows of a SELECT to the client that submitted it: every change, row kinds unchanged. Without format and
    options."""

    descriptor = ConnectorDescriptor(
        identifier="collect", options=(), writing=Writing(mode=ChangelogMode.RETRACT), is_internal=True
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return CollectWriter(spec, context)


class CollectWriter:
    """Sends every batch to the client as it comes, under the result's column names; waits while the client is behind.
    No state."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._names = list(spec.schema.names)
        self._emit = context.emit_result

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            kinds = batch.schema.names[len(self._names) :]
            self._emit(batch.rename_columns([*self._names, *kinds]))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return []

    def abort(self) -> None:
        """Nothing to do: rows sent to the client cannot be recalled."""
