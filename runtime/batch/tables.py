"""Reads a table of a batch query through its connector, so that every engine gets the rows that a stream reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import InternalError, SqlStreamError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.host.clock import now_ms, wait_s
from sqlstream.spi.batch_relation import BatchRelation, HasBatchRelation, ThroughReader
from sqlstream.spi.connector import ConnectorContext, SourceStatus

PAUSE_MAX_S = 0.1
"""How long a reader without rows is left alone at most: the run may be cancelled meanwhile."""


@dataclass(frozen=True)
class Share:
    """One reader or writer of several. `attempt` is unique among the runs, and with `subtask` names their files."""

    job_id: str
    attempt: str
    subtask: int
    parallelism: int
    config: dict[str, str]


def connector_context(
    share: Share,
    files: Any,
    count: Callable[[str, int], None],
    print_lines: Callable[[list[str], bool], None],
) -> ConnectorContext:
    return ConnectorContext(
        job_id=share.job_id,
        vertex_id=share.attempt,
        subtask=share.subtask,
        parallelism=share.parallelism,
        attempt=0,
        batch_rows=int(options.get(share.config, "execution.batch-rows")),
        config=share.config,
        now_ms=now_ms,
        count=count,
        files=files,
        print_lines=print_lines,
    )


def read_table(
    table: BatchTable, context: ConnectorContext, is_cancelled: Callable[[], bool]
) -> Iterator[pa.RecordBatch]:
    """The share of one subtask, with the columns and types of `table.schema`. A table of changes has one share. Rows are counted
    as numRecordsOut.

    BatchCancelled once `is_cancelled`; the errors of the connector."""
    from sqlstream.runtime.connectors import connector

    schema = to_arrow_schema(table.schema)
    place = 0
    reader = connector(table.source.connector).source(table.source, context, None)
    try:
        while True:
            if is_cancelled():
                raise BatchCancelled
            polled = reader.poll()
            if polled is SourceStatus.END:
                return
            if isinstance(polled, pa.RecordBatch):
                context.count("numRecordsOut", polled.num_rows)
                if polled.num_rows:
                    yield _shaped(_with_changes(polled, place) if table.has_changes else polled, schema)
                place += polled.num_rows
            else:
                due_ms = reader.next_poll_ms()
                pause_s = PAUSE_MAX_S if due_ms is None else (due_ms - context.now_ms()) / 1000
                wait_s(min(max(pause_s, 0.001), PAUSE_MAX_S))
    finally:
        reader.close()


def _with_changes(batch: pa.RecordBatch, place: int) -> pa.RecordBatch:
    """The rows with the two columns of changes; `place` rows came before."""
    rows = without_row_kinds(batch)
    kinds = pa.array(row_kinds(batch), pa.int8())
    places = pa.array(np.arange(place, place + batch.num_rows))
    names = [*rows.schema.names, "row_kind", "row_place"]
    return pa.RecordBatch.from_arrays([*rows.columns, kinds, places], names=names)


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns by position, under the names of the relation."""
    if batch.num_columns != len(schema):
        raise InternalError(f"a reader gave {batch.num_columns} columns instead of {len(schema)}")
    if not len(schema):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


# Which tables of a batch plan the engine reads by itself.


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
