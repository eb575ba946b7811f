"""Rows of a sink in a hidden file beside a database that is a file, until they are committed."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from runtime.host.files import FileStatus, file_error
from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.errors import ExternalError
from sqlstream.specs import SinkSpec
from sqlstream.spi.connector import ConnectorContext

logger = logging.getLogger(__name__)

KIND_COLUMN = "$kind"
_ROWS = "rows.arrow"
_END = b"ARROW1"
"""What a complete file ends with."""

_MINUTE_MS = 60_000
KEPT_MS = 30 * 24 * 60 * _MINUTE_MS
"""Complete rows may still be committed, by a server that starts again; after this long they are left over."""


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its rows until the commit: beside the database."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.staging-{job_id}-{writer_id}")


def remove_staging(path: str, job_id: str, files: Any) -> None:
    """Remove the rows of all writers of a job into the database at this path."""
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove(directory)


def remove_leftovers(path: str, context: ConnectorContext) -> None:
    """Remove what writers into the database at this path have left whose process died: rows that nobody has locked and that are
    not complete."""
    files = context.files
    for directory in files.match_glob(staging_directory(glob.escape(path), "*", "*")):
        rows = os.path.join(directory, _ROWS)
        lock = files.lock(rows)
        if lock is None:
            continue
        with lock:
            status = files.status(rows)
            age_ms = context.now_ms() - status.modified_ms if status is not None else 0
            # A writer makes its file before it locks it.
            if age_ms > (KEPT_MS if _is_complete(lock, status) else _MINUTE_MS):
                logger.warning("removing the staged rows of a job that died: %s", directory)
                files.remove(directory)


def _is_complete(stream: BinaryIO, status: FileStatus | None) -> bool:
    if status is None or status.size < len(_END):
        return False
    stream.seek(-len(_END), os.SEEK_END)
    return stream.read(len(_END)) == _END


class StagedRowsWriter:
    """Writes the rows in their order, with their kinds, to one Arrow file in a directory of its own.

    State: the open file, which is locked until it is complete or its process ends. An empty writer has a file too, so that a
    table is made although no row came. What writers of other jobs have left is removed first."""

    def __init__(self, spec: SinkSpec, path: str, context: ConnectorContext) -> None:
        """`path` is the database's."""
        remove_leftovers(path, context)
        self._context = context
        self._id = uuid.uuid4().hex
        self._directory = staging_directory(path, context.job_id, self._id[:12])
        self._path = os.path.join(self._directory, _ROWS)
        data = to_arrow_schema(spec.schema)
        self._schema = data.append(pa.field(KIND_COLUMN, pa.int8()))
        self._stream = context.files.open_write(self._path)
        self._lock = context.files.lock(self._path)
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
        self._unlock()
        return [{"id": self._id, "path": self._path, "subtask": self._context.subtask}]

    def abort(self) -> None:
        self._stream.close()
        self._unlock()
        self._context.files.remove(self._directory)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()


def staged_rows(path: str, files: Any) -> pa.Table:
    """The rows of a writer. ExternalError SS5066 when its file is gone."""
    if files.status(path) is None:
        raise ExternalError(
            "SS5066",
            f'could not commit "{path}": the rows written there have vanished',
            hint="run the statement again, and let nothing remove hidden files meanwhile",
        )
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error("write", path, error) from error
