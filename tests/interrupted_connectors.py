"""Connectors for jobs that are interrupted: sources that take their time, and a sink that keeps every change exactly once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.connectors import CONNECTORS
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.generators.nexmark import Nexmark
from sqlstream.runtime.connectors.plain_sinks import SinkOnlyConnector
from sqlstream.runtime.connectors.staged_rows import KIND_COLUMN, StagedRowsWriter
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    SinkWriter,
    SourceReader,
    SourceStatus,
    Writing,
)
from sqlstream.spi.files import Files

KEPT = "kept-changes"
PAUSE_MS = "test.source.pause-ms"
"""In the job's settings: how long a reader waits after each batch."""
GATE = "test.source.gate"
"""In the job's settings: a path; no reader ends before there is a file, so that a job cannot end before it is interrupted."""
SINK_PAUSE_MS = "test.sink.pause-ms"
"""In the job's settings: how long each other subtask of the sink takes for a batch, so that rows wait before it and it is behind
the others in event time."""

_ADDED = (int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))


def register() -> None:
    """Sources of files and of Nexmark are slow, and there is a sink KEPT."""
    CONNECTORS[KEPT] = "interrupted_connectors:KeptChanges"
    CONNECTORS["filesystem"] = "interrupted_connectors:SlowFilesystem"
    CONNECTORS["nexmark"] = "interrupted_connectors:SlowNexmark"


class SlowFilesystem(Filesystem):
    """Implements `Connector`. No state."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        return slowed(super().source(spec, context, splits), context)


class SlowNexmark(Nexmark):
    """Implements `Connector`. No state."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        return slowed(super().source(spec, context, splits), context)


def slowed(reader: SourceReader, context: ConnectorContext) -> SourceReader:
    """The reader, which after each batch has nothing for a while, and ends when the gate is open."""
    pause_s = int(context.config.get(PAUSE_MS, "0")) / 1000
    gate = context.config.get(GATE)
    due_s = 0.0
    has_ended = False
    poll = reader.poll

    def poll_slowly() -> pa.RecordBatch | SourceStatus:
        nonlocal due_s, has_ended
        if time.monotonic() < due_s:
            return SourceStatus.NOTHING_YET
        polled = SourceStatus.END if has_ended else poll()
        if polled is SourceStatus.END:
            has_ended = True
            return polled if gate is None or os.path.exists(gate) else SourceStatus.NOTHING_YET
        if isinstance(polled, pa.RecordBatch) and polled.num_rows:
            due_s = time.monotonic() + pause_s
        return polled

    # Not a reader around it: the runtime asks a reader which further protocols it implements.
    reader.poll = poll_slowly  # type: ignore[method-assign]
    return reader


class KeptChanges(SinkOnlyConnector):
    """Stages changes as `duckdb` does; a commit moves each file to a name that follows from writer and checkpoint."""

    descriptor = ConnectorDescriptor(
        identifier=KEPT, options=(), writing=Writing(mode=ChangelogMode.RETRACT), is_internal=True
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        writer = StagedRowsWriter(spec, os.path.join(spec.options["path"], "staged"), context)
        pause_s = context.subtask % 2 * int(context.config.get(SINK_PAUSE_MS, "0")) / 1000
        write = writer.write

        def write_slowly(batch: pa.RecordBatch) -> None:
            time.sleep(pause_s)
            write(batch)

        writer.write = write_slowly  # type: ignore[method-assign]
        return writer

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        for committable in in_order(committables):
            final = os.path.join(spec.options["path"], committable.key.replace("/", "-") + ".arrow")
            if files.status(final) is None:
                files.publish(committable.content["path"], final)


def kept_rows(directory: Path, schema: pa.Schema) -> pa.Table:
    """The rows that are left after all changes, whatever their order. AssertionError when one is retracted that was not added."""
    pieces = [pa.ipc.open_file(path).read_all() for path in sorted(directory.glob("*.arrow"))]
    if not pieces:
        return schema.empty_table()
    changes = pa.concat_tables(pieces)
    kinds = changes.column(KIND_COLUMN).to_pylist()
    data = pa.table(changes.columns[: len(schema)], schema=schema)
    added: dict[str, list[int]] = {}
    retracted: list[str] = []
    for place, (row, kind) in enumerate(zip(data.to_pylist(), kinds, strict=True)):
        if kind in _ADDED:
            added.setdefault(repr(row), []).append(place)
        else:
            retracted.append(repr(row))
    for row in retracted:
        assert added.get(row), f"retracted, but not there: {row}"
        added[row].pop()
    places = sorted(place for found in added.values() for place in found)
    return data.take(pa.array(places, pa.int64()))
