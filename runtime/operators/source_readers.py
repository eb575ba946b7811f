"""What the head of a task reads, by its spec: a table, literal rows, or the answer about a file or a function."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.schema import Schema
from sqlstream.specs import InferTableSpec, InspectFunctionSpec, SourceSpec, ValuesSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus


@dataclasses.dataclass(frozen=True)
class HeadOpening:
    """The head of a task that reads: `splits` are those that it begins with (None: the reader finds its own), `positions` what
    the readers before a restore have saved."""

    chained: ChainedOperator
    context: ConnectorContext
    splits: Sequence[Any] | None
    positions: Sequence[Any]


def open_source(head: HeadOpening) -> SourceReader:
    """A table, by its connector."""
    from sqlstream.runtime.connectors import connector

    spec = head.chained.spec
    assert isinstance(spec, SourceSpec)
    splits = list(head.splits) if head.splits is not None else None
    return connector(spec.connector).source(spec, head.context, splits)


def open_inference(head: HeadOpening) -> SourceReader:
    """What the columns of files are."""
    from sqlstream.runtime.inference.file_inference import InferenceReader

    spec = head.chained.spec
    assert isinstance(spec, InferTableSpec)
    return InferenceReader(spec, head.context.files)


def open_inspection(head: HeadOpening) -> SourceReader:
    """What a Python function declares."""
    from sqlstream.runtime.python.inspector import InspectionReader

    spec = head.chained.spec
    assert isinstance(spec, InspectFunctionSpec)
    return InspectionReader(spec)


def open_values(head: HeadOpening) -> SourceReader:
    """Literal rows."""
    spec, context = head.chained.spec, head.context
    assert isinstance(spec, ValuesSpec)
    schema = head.chained.output_schema
    return ValuesReader(spec, schema, context.subtask, context.batch_rows, head.positions)


def open_backfill(head: HeadOpening) -> SourceReader:
    """The history of a table."""
    from sqlstream.runtime.batch.backfill_reader import BackfillReader

    return BackfillReader(head.chained, head.context, head.positions)


class ValuesReader:
    """Returns all rows of a VALUES clause in subtask 0; other subtasks have none. `splits` are snapshots of the readers before,
    None without any. State: the batches not yet polled; a snapshot has the number of the rows that were."""

    def __init__(
        self,
        spec: ValuesSpec,
        schema: Schema,
        subtask: int,
        batch_rows: int,
        splits: Iterable[dict[str, Any]] | None = None,
    ) -> None:
        from sqlstream.runtime.evaluate.values import values_batches

        self._is_first = subtask == 0
        self._polled = sum(split["rows"] for split in splits or ()) if self._is_first else 0
        left = msgspec.structs.replace(spec, rows=spec.rows[self._polled :])
        self._batches: deque[pa.RecordBatch] = deque(
            values_batches(left, schema, batch_rows) if self._is_first else ()
        )

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._batches:
            return SourceStatus.END
        self._polled += self._batches[0].num_rows
        return self._batches.popleft()

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"rows": self._polled}] if self._is_first else []

    def close(self) -> None:
        self._batches.clear()
