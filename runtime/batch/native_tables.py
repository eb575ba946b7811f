"""Which tables of a batch plan the engine reads by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlstream import config as options
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.spi.batch_relation import BatchRelation, HasBatchRelation, ThroughReader

IS_ENABLED = "execution.batch.native-relations.enabled"


def batch_relation(
    table: BatchTable, engine: str, config: Mapping[str, str], files: Any, is_cancelled: Callable[[], bool]
) -> BatchRelation:
    """How the engine reads a table. BatchCancelled; no other error, since the reader of the table says what is wrong with it."""
    from sqlstream.runtime.connectors import connector

    named = connector(table.source.connector)
    if table.has_changes:
        return ThroughReader("its rows are changes")
    if not isinstance(named, HasBatchRelation):
        return ThroughReader()
    if not options.get(config, IS_ENABLED):
        return ThroughReader(f"'{IS_ENABLED}' = 'false'")

    def check_cancelled() -> None:
        if is_cancelled():
            raise BatchCancelled

    try:
        return named.batch_relation(table.source, engine, files, check_cancelled)
    except BatchCancelled:
        raise
    except Exception as error:  # of any kind: files may hold anything, and the reader meets the same
        return ThroughReader(_first_line(error))


def described_relation(table: BatchTable, relation: BatchRelation) -> str:
    """A line of EXPLAIN."""
    if not isinstance(relation, ThroughReader):
        return f"{table.name}: {relation.words}"
    return f"{table.name}: through sqlstream's reader" + (f": {relation.reason}" if relation.reason else "")


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, SqlStreamError) else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__
