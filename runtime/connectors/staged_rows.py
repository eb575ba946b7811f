"""Rows of a sink in a hidden file beside a database that is a file, until they are committed."""

from __future__ import annotations

import contextlib
import glob
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from runtime.host.files import file_error
from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.errors import ExternalError
from sqlstream.specs import SinkSpec
from sqlstream.spi.connector import ConnectorContext

KIND_COLUMN = "$kind"
_ROWS = "rows.arrow"


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its rows until the commit: beside the database."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.staging-{job_id}-{writer_id}")


def remove_staging(path: str, job_id: str, files: Any) -> None:
    """Remove the rows of all writers of a job into the database at this path."""
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove(directory)


class StagedRowsWriter:
    """Writes the rows in their order, with their kinds, to one Arrow file in a directory of its own.

    State: the open file. An empty writer has a file too, so that a table is made although no row came."""

    def __init__(self, spec: SinkSpec, path: str, context: ConnectorContext) -> None:
        """`path` is the database's."""
        self._context = context
        self._id = uuid.uuid4().hex
        self._directory = staging_directory(path, context.job_id, self._id[:12])
        self._path = os.path.join(self._directory, _ROWS)
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


def staged_rows(path: str, files: Any) -> pa.Table:
    """The rows of a writer. ExternalError SS5066 when its file is gone."""
    if files.status(path) is None:
        raise ExternalError(
            "SS5066",
            f'could not commit "{path}": the rows written there have vanished',
            hint="run the statement again, and let nothing remove hidden files meanwhile",
        )
    return pa.ipc.open_file(files.map_read(path)).read_all()


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error("write", path, error) from error
