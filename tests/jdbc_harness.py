"""Tables of connector `jdbc`: one reader, writer or lookup of literal rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from operator_harness import Row, batch, rows_of

from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import Expression
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import AbortsCommittables, ConnectorContext, LooksUp, SourceStatus

FILES = LocalFiles()


def context(
    subtask: int = 0,
    parallelism: int = 1,
    batch_rows: int = 3,
    files: Any = FILES,
    job_id: str = "job",
    now_ms: Callable[[], int] = lambda: 0,
    on_cancel: Callable[[Callable[[], None]], None] = lambda interrupt: None,
    writer_name: str = "",
) -> ConnectorContext:
    return ConnectorContext(
        *(job_id, "vertex", subtask, parallelism, 0, batch_rows, {}, now_ms, lambda name, n: None, files),
        on_cancel=on_cancel,
        writer_name=writer_name,
    )


def source(
    options: dict[str, str],
    schema: Schema,
    columns: tuple[str, ...] | None = None,
    filters: tuple[Expression, ...] = (),
    limit: int = -1,
) -> SourceSpec:
    wanted = schema.names if columns is None else columns
    return SourceSpec("dim", "jdbc", options, schema, wanted, filters=filters, limit=limit)


def read(spec: SourceSpec, splits: list[dict[str, Any]] | None = None, **surroundings: Any) -> list[Row]:
    # Whoever polls again has waited for long enough.
    surroundings.setdefault("now_ms", itertools.count(0, 10_000).__next__)
    reader, rows = connector("jdbc").source(spec, context(**surroundings), splits), list[Row]()
    try:
        while (polled := reader.poll()) is not SourceStatus.END:
            if isinstance(polled, pa.RecordBatch):
                polled.validate(full=True)
                rows += rows_of(polled)
    finally:
        reader.close()
    return rows


def look_up(spec: SourceSpec, keys: list[Row], by: tuple[str, ...] = ("k",), files: Any = FILES) -> list[Row]:
    made = connector("jdbc")
    assert isinstance(made, LooksUp)
    schema = spec.schema.select(tuple(spec.schema.index_of(name) for name in by))
    looking = made.lookup_source(spec, by, context(files=files))
    try:
        return sorted(rows_of(looking.lookup(batch(schema, keys))), key=repr)
    finally:
        looking.close()


def sink(options: dict[str, str], schema: Schema, primary_key: tuple[int, ...] = ()) -> SinkSpec:
    return SinkSpec("out", "jdbc", options, schema, primary_key)


def written(
    spec: SinkSpec,
    batches: list[list[Row]],
    mode: ChangelogMode = ChangelogMode.INSERT_ONLY,
    **surroundings: Any,
) -> list[Committable]:
    """The committables of one writer."""
    writer = connector("jdbc").sink(spec, mode, context(**surroundings))
    for rows in batches:
        writer.write(batch(spec.schema, rows, mode))
    return writer.prepare_commit(LAST_CHECKPOINT_ID)


def commit(spec: SinkSpec, committables: list[Committable]) -> None:
    connector("jdbc").commit(spec, LAST_CHECKPOINT_ID, committables, FILES)


def abort(spec: SinkSpec, committables: list[Committable], job_id: str = "job") -> None:
    made = connector("jdbc")
    assert isinstance(made, AbortsCommittables)
    made.abort(spec, job_id, committables, FILES)
