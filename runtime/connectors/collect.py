"""Connector `collect`: the rows of a SELECT, on their way to the client that submitted it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter, SourceReader

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec, SourceSpec


class Collect:
    """A sink without format or options, which takes every change and hands on row kinds as they are."""

    descriptor = ConnectorDescriptor(
        identifier="collect",
        options=(),
        is_source=False,
        is_sink=True,
        sink_mode=ChangelogMode.RETRACT,
    )

    def validate(self, table: str, schema: Schema, options: dict[str, str]) -> None:
        """Anything goes."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        raise UserError(
            "SS4003",
            f'table "{spec.table}" cannot be read: connector "collect" only hands rows to the client',
            hint="read from a table of another connector",
        )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return CollectWriter(context)

    def commit(self, spec: SinkSpec, committables: list[dict[str, Any]], files: Any) -> None:
        """The client has the rows already."""


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
