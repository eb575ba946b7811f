"""Writes rows to a DuckDB table: staged in files by each subtask, applied in one transaction when the job has finished."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from runtime.connectors.duckdb.options import Place
from runtime.host.files import file_error
from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.specs import SinkSpec
from sqlstream.spi.connector import ConnectorContext

KIND_COLUMN = "$kind"


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its rows until the commit: beside the database."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.staging-{job_id}-{writer_id}")


class DuckDbSinkWriter:
    """Writes the rows in their order, with their kinds, to one Arrow file in a directory of its own.

    State: the open file. An empty writer has a file too, so that a table is made although no row came."""

    def __init__(self, spec: SinkSpec, place: Place, mode: ChangelogMode, context: ConnectorContext) -> None:
        self._context = context
        self._id = uuid.uuid4().hex
        self._directory = staging_directory(place.path, context.job_id, self._id[:12])
        self._path = os.path.join(self._directory, "rows.arrow")
        data = to_arrow_schema(spec.schema)
        self._schema = data.append(pa.field(KIND_COLUMN, pa.int8()))
        self._stream = context.files.open_write(self._path)
        self._writer = pa.ipc.new_file(self._stream, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        kinds = pa.array(row_kinds(batch), pa.int8())
        data = without_row_kinds(batch) if is_changelog(batch) else batch
        rows = pa.RecordBatch.from_arrays([*data.columns, kinds], schema=self._schema)
        with _errors_of(self._path):
            self._writer.write_batch(rows)

    def finish(self) -> list[dict[str, Any]]:
        with _errors_of(self._path):
            self._writer.close()
            self._context.count("numBytesOut", self._stream.tell())
            self._stream.flush()
            self._context.files.sync(self._stream)
            self._stream.close()
        return [{"id": self._id, "path": self._path, "subtask": self._context.subtask}]

    def abort(self) -> None:
        self._stream.close()
        self._context.files.remove(self._directory)


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error("write", path, error) from error
