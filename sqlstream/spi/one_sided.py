"""The common parts of connectors that can only be written, and of those that can only be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import InternalError, UserError
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorContext, SinkWriter, SourceReader
from sqlstream.spi.files import Files

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec, SourceSpec
    from sqlstream.spi.committable import Committable


class SinkOnlyConnector:
    """No source, nothing to check beyond the descriptor, and nothing to commit: rows are out when they are written."""

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Accept any options beyond the descriptor's checks."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        raise UserError(
            "SS4003",
            f'table "{spec.table}" cannot be read: connector "{spec.connector}" keeps no rows',
            hint="read from a table of another connector",
        )

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        """Nothing to do: rows are out when they are written."""


class SourceOnlyConnector:
    """No sink, and so nothing to commit: rows are made."""

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        raise UserError(
            "SS4003",
            f'table "{spec.table}" cannot be written to: connector "{spec.connector}" only makes rows',
            hint="insert into a table of another connector",
        )

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        raise InternalError(f'connector "{spec.connector}" was asked to commit rows of table "{spec.table}"')
