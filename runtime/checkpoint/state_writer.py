"""Writes what one subtask saves: an Arrow IPC stream per table, each with its checksum."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from runtime.checkpoint.copying_files import StateFiles
from runtime.host.files import file_error
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import (
    STATE_DIRECTORY,
    SavedOperator,
    StateSegment,
    TableState,
    state_path,
)

PIECE_ROWS_MAX = 1 << 17
PIECE_BYTES_MAX = 16 << 20
"""A record batch of a file has at most so many rows and about so many bytes: what reading one takes."""

OWN_FILE_BYTES_MIN = 4 << 20

_ALIGNMENT = 64
"""Segments start at multiples of this, so that the columns of a mapped file are aligned as Arrow's own memory is."""


def state_name(execution_id: str, checkpoint_id: int) -> str:
    """Under what name an attempt writes its state of a checkpoint; another at each call, as a JobManager that starts anew may use
    the ids of one that has died, whose tasks may still write."""
    return f"{execution_id}-{secrets.token_hex(4)}-{checkpoint_id}"


class StateWriter:
    """Writes the state of subtasks below the directory of a job's checkpoints.

    A name is written once. Large tables have files of their own, because a file stays as long as a later checkpoint refers to one
    table in it; the others share one. Files are at their paths whole and durable when `write` returns, and none is there when it
    fails. Rows stay in their order: to sort them by key group would take three times as long as to write them, and only an
    attempt at another parallelism, which filters, would gain. What is written is a view of the snapshot, but for the pieces of
    compressed columns. No state."""

    def __init__(self, files: StateFiles, directory: str, *, is_compressed: bool = False) -> None:
        self._files = files
        self._directory = directory
        self._options = pa.ipc.IpcWriteOptions(compression="lz4" if is_compressed else None)

    def write(self, name: str, snapshots: Mapping[int, OperatorSnapshot]) -> tuple[SavedOperator, ...]:
        """The tables of one subtask's operators, by operator id; without any table no file is written. ExternalError SS5001 with
        the cause when the store takes no more.

        Every table has the one segment that was written: it follows those of an earlier checkpoint when it is an increment."""
        tables = list(_tables_of(snapshots))
        small = [table for table in tables if table.rows.nbytes < OWN_FILE_BYTES_MIN]
        groups = [small] * bool(small) + [[table] for table in tables if table not in small]
        try:
            written = [
                saved
                for number, group in enumerate(groups)
                for saved in self._write_file(_numbered(name, number), group)
            ]
        except BaseException:
            # Of a store that fails this may fail too: the sweep of the job's files finds what is left.
            with contextlib.suppress(ExternalError):
                self.discard(name)
            raise
        return tuple(
            SavedOperator(number, tuple(state for operator_id, state in written if operator_id == number))
            for number in snapshots
        )

    def _write_file(self, name: str, tables: list[_Table]) -> list[tuple[int, TableState]]:
        path = state_path(name)
        whole = f"{self._directory}/{path}"
        stream = self._files.open_write(whole)
        try:
            with stream:
                file = _StateFile(path, stream, self._options)
                saved = [(table.operator_id, file.table(table)) for table in tables]
                stream.flush()
                self._files.sync(stream)
        except OSError as error:
            raise file_error("write", whole, error) from error
        return saved

    def discard(self, name: str) -> None:
        """Remove the files of this name, if there are any, and the directories when nothing else is in them: the job may have
        ended meanwhile."""
        for number in itertools.count():
            path = f"{self._directory}/{state_path(_numbered(name, number))}"
            if self._files.status(path) is None:
                break
            self._files.remove(path)
        for directory in (f"{self._directory}/{STATE_DIRECTORY}", self._directory):
            self._files.remove_directory_if_empty(directory)


@dataclass(frozen=True, eq=False)
class _Table:
    """A table to be written."""

    operator_id: int
    name: str
    rows: pa.Table
    is_keyed: bool
    is_increment: bool


def _tables_of(snapshots: Mapping[int, OperatorSnapshot]) -> Iterator[_Table]:
    for operator_id, snapshot in snapshots.items():
        for name, rows in snapshot.keyed.items():
            yield _Table(operator_id, name, rows, True, name in snapshot.increments)
        for name, rows in snapshot.shared.items():
            yield _Table(operator_id, name, rows, False, False)


def _numbered(name: str, number: int) -> str:
    """The name of one of several files: `x-1f-12`, `x-1f.1-12`, `x-1f.2-12`."""
    stem, _, checkpoint_id = name.rpartition("-")
    return f"{stem}.{number}-{checkpoint_id}" if number else name


class _StateFile:
    """A file while it is written. State: its length so far."""

    def __init__(self, path: str, stream: BinaryIO, options: pa.ipc.IpcWriteOptions) -> None:
        self._path = path
        self._stream = stream
        self._options = options
        self._length = 0

    def table(self, table: _Table) -> TableState:
        """Write a table as one segment."""
        padding = -self._length % _ALIGNMENT
        self._stream.write(bytes(padding))
        checked = _ChecksummedStream(self._stream)
        first, last = -1, -1
        with pa.ipc.new_stream(checked, table.rows.schema, options=self._options) as writer:
            for piece in pieces_of(table.rows):
                if table.is_keyed:
                    extent = pc.min_max(piece.column(KEY_GROUP_COLUMN)).as_py()
                    first = extent["min"] if first < 0 else min(first, extent["min"])
                    last = max(last, extent["max"])
                writer.write_batch(piece)
        offset = self._length + padding
        self._length = offset + checked.length
        segment = StateSegment(
            self._path,
            offset,
            checked.length,
            checked.checksum,
            table.rows.num_rows,
            first,
            last,
            table.is_increment,
        )
        return TableState(table.name, table.is_keyed, (segment,))


class _ChecksummedStream:
    """Passes on what Arrow writes, buffer by buffer and without a copy. State: the length and the CRC-32 so far."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.length = 0
        self.checksum = 0

    def write(self, data: pa.Buffer | bytes) -> None:
        self.checksum = zlib.crc32(data, self.checksum)
        self._stream.write(data)
        self.length += len(data)

    def tell(self) -> int:
        return self.length

    def flush(self) -> None:
        """The whole file is flushed at its end."""

    def close(self) -> None:
        """Another segment follows."""


def pieces_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows as batches of bounded size, which are views of the table."""
    for batch in table.to_batches(max_chunksize=PIECE_ROWS_MAX):
        count = min(-(-batch.nbytes // PIECE_BYTES_MAX), batch.num_rows)
        if count <= 1:
            if batch.num_rows:
                yield batch
            continue
        rows = -(-batch.num_rows // count)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
