"""Rows of a sink in a hidden file beside a database that is a file, until they are committed."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.writer_ids import digits_of, new_writer_id
from sqlstream.runtime.host.files import file_error
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files

KIND_COLUMN = "$kind"


@dataclass(frozen=True)
class _OpenFile:
    path: str
    stream: BinaryIO
    writer: pa.RecordBatchWriter


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its rows until the commit: beside the database."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.staging-{job_id}-{writer_id}")


def remove_staging(path: str, job_id: str, files: Files) -> None:
    """Remove the rows of all writers of a job into the database at this path."""
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove(directory)


def remove_staged_by(path: str, job_id: str, writer_names: Sequence[str], files: Files) -> None:
    """Remove the rows of these writers into the database at this path."""
    for name in writer_names:
        files.remove(staging_directory(path, job_id, digits_of(name)[:12]))


class StagedRowsWriter:
    """Writes the rows in their order, with their kinds, to Arrow files in a directory of its own, one for each checkpoint.

    State: the open file. The first checkpoint has a file also when it has no rows, so that a table is made although none came."""

    def __init__(self, spec: SinkSpec, path: str, context: ConnectorContext) -> None:
        """`path` is the database's."""
        self._context = context
        self._id = new_writer_id(context)
        self._directory = staging_directory(path, context.job_id, self._id[:12])
        data = to_arrow_schema(spec.schema)
        self._schema = data.append(pa.field(KIND_COLUMN, pa.int8()))
        self._file_count = 0
        self._open: _OpenFile | None = self._start()

    def _start(self) -> _OpenFile:
        path = os.path.join(self._directory, f"rows-{self._file_count}.arrow")
        self._file_count += 1
        stream = self._context.files.open_write(path)
        return _OpenFile(path, stream, pa.ipc.new_file(stream, self._schema))

    def write(self, batch: pa.RecordBatch) -> None:
        if self._open is None:
            self._open = self._start()
        kinds = pa.array(row_kinds(batch), pa.int8())
        data = without_row_kinds(batch) if is_changelog(batch) else batch
        rows = pa.RecordBatch.from_arrays([*data.columns, kinds], schema=self._schema)
        with _errors_of(self._open.path):
            self._open.writer.write_batch(rows)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        file = self._open
        if file is None:
            return []
        with _errors_of(file.path):
            file.writer.close()
            self._context.count("numBytesOut", file.stream.tell())
            file.stream.flush()
            self._context.files.sync(file.stream)
            file.stream.close()
        self._open = None
        job_id, subtask = self._context.job_id, self._context.subtask
        return [Committable(job_id, checkpoint_id, self._id, subtask, {"path": file.path})]

    def abort(self) -> None:
        if self._open is not None:
            self._open.stream.close()
            self._context.files.remove(self._open.path)
        self._context.files.remove_directory_if_empty(self._directory)


def remove_committed(checkpoint_id: int, committables: Sequence[Committable], files: Files) -> None:
    """Remove the rows of a commit that is complete. A writer that goes on needs its directory."""
    for committable in committables:
        path = committable.content["path"]
        files.remove(path)
        if checkpoint_id == LAST_CHECKPOINT_ID:
            files.remove_directory_if_empty(os.path.dirname(path))


def staged_rows(committable: Committable, files: Files) -> pa.Table:
    """The rows of a writer. ExternalError SS5066 when its file is gone or damaged."""
    path = committable.content["path"]
    if files.status(path) is None:
        raise _unusable(path, "the rows written there have vanished")
    try:
        rows = pa.ipc.open_file(files.map_read(path)).read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _unusable(path, "the rows written there are damaged", str(error)) from error
    return rows


def _unusable(path: str, problem: str, detail: str = "") -> ExternalError:
    return ExternalError(
        "SS5066",
        f'could not commit "{path}": {problem}',
        detail=detail,
        hint="run the statement again, and let nothing change hidden files meanwhile",
    )


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error("write", path, error) from error
