"""The common part of connectors that can only be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import InternalError, UserError
from sqlstream.spi.connector import ConnectorContext, SinkWriter
from sqlstream.spi.files import Files

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


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
