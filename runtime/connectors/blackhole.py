"""Connector `blackhole`: a sink that takes every change and keeps none, for measuring the query alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorContext, ConnectorDescriptor, SinkWriter, SourceReader

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec, SourceSpec


class Blackhole:
    """A sink without format or options."""

    descriptor = ConnectorDescriptor(
        identifier="blackhole",
        options=(),
        is_source=False,
        is_sink=True,
        sink_mode=ChangelogMode.RETRACT,
        sink_takes_upserts=True,
    )

    def validate(self, table: str, schema: Schema, options: dict[str, str]) -> None:
        """Anything goes."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        raise UserError(
            "SS4003",
            f'table "{spec.table}" cannot be read: connector "blackhole" keeps no rows',
            hint="read from a table of another connector",
        )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return BlackholeWriter()

    def commit(self, spec: SinkSpec, committables: list[dict[str, Any]], files: Any) -> None:
        """There is nothing to make visible."""


class BlackholeWriter:
    """No state."""

    def write(self, batch: pa.RecordBatch) -> None:
        """The rows end here."""

    def finish(self) -> list[dict[str, Any]]:
        return []

    def abort(self) -> None:
        """There is nothing to remove."""
