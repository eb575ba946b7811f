"""What the connectors have in common of whose tables one reader has all rows, because there is one connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlstream.runtime.connectors.files.file_paths import named_paths, with_absolute_paths
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.rejected_rows import KeepsRejectedMessages
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    REJECTED_ROWS_PATH,
    ConnectorContext,
    EnumeratorContext,
    SourceReader,
    SplitEnumerator,
)
from sqlstream.spi.one_sided import SourceOnlyConnector


class OneConnection(KeepsRejectedMessages, SourceOnlyConnector, ABC):
    """`first`: where a table is read from. `file_options`: the options that name files and directories."""

    first: ClassVar[Mapping[str, Any]]
    file_options: ClassVar[tuple[str, ...]] = (REJECTED_ROWS_PATH,)

    @abstractmethod
    def reader(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> SourceReader:
        """Without splits it has nothing to read."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        context.files.require_database_servers()
        return self.reader(spec, context, own_share(self, spec, context) if splits is None else splits)

    def split_enumerator(
        self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None
    ) -> SplitEnumerator:
        return FixedSplits([dict(self.first)], state)

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        return named_paths(options, self.file_options)

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        return with_absolute_paths(options, self.file_options, directory)
