"""How a batch engine reads a table: through the reader of its connector, or by itself.

A connector that has nothing to say here is read through its reader. One with a native relation promises that the engine gets
the rows that its reader would give, and reads nothing that its reader would refuse. When in doubt it answers `ThroughReader`,
whose readers then say what is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from sqlstream.specs import SourceSpec
from sqlstream.spi.files import Files

Attach = Callable[[Any], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class ThroughReader:
    """The rows come from the connector's reader. `reason`: why the engine does not read by itself, where it could."""

    reason: str = ""


def _is_unchanged() -> None:
    """A database that is attached read-only does not change."""


@dataclass(frozen=True)
class DuckDbRelation:
    """A table that DuckDB reads by itself.

    `query` is a SELECT of DuckDB whose columns are c0, c1, … by position, in DuckDB's types for the Arrow types of the reader's
    columns. `paths` are the files that it opens. `attach` enters what the query needs besides, on a SharedConnection that is not
    yet locked, and may hold it for longer. `row_count` and `byte_count` are what the table has of these columns, 0 where that is
    not known. `require_unchanged` is called behind the last row: ExternalError when the files are no longer those of the
    promise."""

    words: str
    query: str
    paths: tuple[str, ...] = ()
    attach: Attach = field(default=lambda connection: contextlib.nullcontext())
    row_count: int = 0
    byte_count: int = 0
    require_unchanged: Callable[[], None] = field(default=_is_unchanged)


@dataclass(frozen=True)
class SparkFiles:
    """Files that one scan of Spark reads. `ddl` declares the columns as they are stored, and `expressions` make those of the
    relation, by position. Spark takes no scan without a column, so `ddl` may have one that no file has."""

    paths: tuple[str, ...]
    ddl: str
    expressions: tuple[str, ...]


@dataclass(frozen=True)
class SparkRelation:
    """A table that Spark reads by itself: the rows of all scans, with `options` of Spark's reader of `format`. The others as in
    `DuckDbRelation`."""

    words: str
    format: str
    options: dict[str, str]
    scans: tuple[SparkFiles, ...]
    row_count: int
    byte_count: int
    require_unchanged: Callable[[], None]


BatchRelation: TypeAlias = ThroughReader | DuckDbRelation | SparkRelation


@runtime_checkable
class HasBatchRelation(Protocol):
    """A connector some of whose tables batch engines read by themselves."""

    def batch_relation(
        self, source: SourceSpec, engine: str, files: Files, check_cancelled: Callable[[], None]
    ) -> BatchRelation:
        """How `engine` (`duckdb` or `spark`) reads the table: `ThroughReader`, or the relation of that engine.

        It looks at the table, which takes as long as opening its files does; `files` decides which may be read.
        `check_cancelled` is called now and then, and raises to give up. Whatever else is raised means that the reader is to say
        what is wrong."""
        ...
