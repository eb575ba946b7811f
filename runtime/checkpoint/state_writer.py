"""Writes what one subtask saves: an Arrow IPC stream per table, each with its checksum."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import (
    STATE_DIRECTORY,
    SavedOperator,
    StateSegment,
    TableState,
    state_path,
)
from sqlstream.runtime.checkpoint.copying_files import StateFiles
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.kernels.checksum import crc32
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot

if TYPE_CHECKING:
    from sqlstream.runtime.checkpoint.merged_files import MergedPart

PIECE_ROWS_MAX = 1 << 17
PIECE_BYTES_MAX = 16 << 20
"""A record batch of a file has at most so many rows and about so many bytes: what reading one takes."""

OWN_FILE_BYTES_MIN = 4 << 20
_COMMON = 0
"""The number of the file that small tables share."""

_MERGED = "m"
"""In place of the number, in the name of a file that subtasks share: what is discarded of one of them is not that."""

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
    compressed columns. A table that is a reader is read once, and only small ones are held.
    With `merged`, small tables go to a file that other subtasks write to, too, and are durable once that is. No other state."""

    def __init__(
        self,
        files: StateFiles,
        directory: str,
        *,
        is_compressed: bool = False,
        merged: MergedPart | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._options = pa.ipc.IpcWriteOptions(compression="lz4" if is_compressed else None)
        self._merged = merged

    def write(self, name: str, snapshots: Mapping[int, OperatorSnapshot]) -> tuple[SavedOperator, ...]:
        """The tables of one subtask's operators, by operator id; without any table no file is written. ExternalError SS5001 with
        the cause when the store takes no more.

        A table has the one segment that was written: it follows those of an earlier checkpoint when it is an increment. An
        increment without rows has none, and where all tables are such no file is written."""
        try:
            written = self._write_files(name, _tables_of(snapshots))
        except BaseException:
            # Of a store that fails this may fail too: the sweep of the job's files finds what is left.
            with contextlib.suppress(ExternalError):
                self.discard(name)
            raise
        return tuple(
            SavedOperator(number, tuple(state for operator_id, state in written if operator_id == number))
            for number in snapshots
        )

    def _write_files(self, name: str, tables: Iterable[Table]) -> list[tuple[int, TableState]]:
        """Large tables as they come, the small ones at the end."""
        small: list[Table] = []
        written: list[tuple[int, TableState]] = []
        numbers = itertools.count(_COMMON + 1)
        own_bytes_min = min(
            OWN_FILE_BYTES_MIN, self._merged.file_bytes_max if self._merged else OWN_FILE_BYTES_MIN
        )
        small_bytes = 0
        for table in tables:
            held, held_bytes = [], 0
            for piece in table.pieces:
                held.append(piece)
                held_bytes += piece.nbytes
                if held_bytes >= own_bytes_min:
                    break
            is_small = held_bytes < own_bytes_min
            if table.is_increment and not held:
                # It says nothing, so that no checkpoint refers to it: a file of such tables alone would never be removed.
                written.append((table.operator_id, TableState(table.name, table.is_keyed, ())))
                continue
            table = dataclasses.replace(table, pieces=_first(held, table.pieces))
            if is_small:
                small.append(table)
                small_bytes += held_bytes
            else:
                written += self._write_file(_numbered(name, next(numbers)), [table])
        if small and self._merged is not None:
            written += self._merged.add(self, _numbered(name, _MERGED), small, small_bytes)
        elif small:
            written += self._write_file(_numbered(name, _COMMON), small)
        return written

    def _write_file(self, name: str, tables: list[Table]) -> list[tuple[int, TableState]]:
        file = self.open(name)
        try:
            saved = file.add(tables)
        except BaseException:
            file.break_off()
            raise
        file.complete()
        return saved

    def open(self, name: str) -> StateFile:
        """A new file of this name. ExternalError SS5001."""
        return StateFile(self._files, self._directory, state_path(name), self._options)

    def discard(self, name: str) -> None:
        """Remove the files of this name, if there are any, and the directories when nothing else is in them: the job may have
        ended meanwhile."""
        for number in itertools.count(_COMMON):
            path = f"{self._directory}/{state_path(_numbered(name, number))}"
            if self._files.status(path) is not None:
                self._files.remove(path)
            elif number > _COMMON:
                break
        for directory in (f"{self._directory}/{STATE_DIRECTORY}", self._directory):
            self._files.remove_directory_if_empty(directory)


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table to be written, whose `pieces` are read once."""

    operator_id: int
    name: str
    schema: pa.Schema
    pieces: Iterator[pa.RecordBatch]
    is_keyed: bool
    is_increment: bool


def _tables_of(snapshots: Mapping[int, OperatorSnapshot]) -> Iterator[Table]:
    for operator_id, snapshot in snapshots.items():
        for name, rows in snapshot.keyed.items():
            yield Table(operator_id, name, rows.schema, pieces_of(rows), True, name in snapshot.increments)
        for name, rows in snapshot.shared.items():
            yield Table(operator_id, name, rows.schema, pieces_of(rows), False, False)


def _first(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is held, each piece until it is taken, and the rest."""
    held.reverse()
    while held:
        yield held.pop()
    yield from rest


def _numbered(name: str, number: int | str) -> str:
    """The name of one of several files: `x-1f-12`, `x-1f.1-12`, `x-1f.2-12`, `x-1f.m-12`."""
    stem, _, checkpoint_id = name.rpartition("-")
    return name if number == _COMMON else f"{stem}.{number}-{checkpoint_id}"


class StateFile:
    """A file while it is written: whole and durable at `path`, below the directory, once `complete` has returned. One thread at a
    time writes to it. State: its stream, and its length so far."""

    def __init__(self, files: StateFiles, directory: str, path: str, options: pa.ipc.IpcWriteOptions) -> None:
        self.path = path
        self.length = 0
        self._whole = f"{directory}/{path}"
        self._files = files
        self._options = options
        self._stream = files.open_write(self._whole)

    def add(self, tables: list[Table]) -> list[tuple[int, TableState]]:
        """Write tables behind what is written; behind a failure the file is to be broken off. ExternalError SS5001."""
        try:
            return [(table.operator_id, self._table(table)) for table in tables]
        except OSError as error:
            raise file_error("write", self._whole, error) from error

    def complete(self) -> None:
        """ExternalError SS5001 when the store does not have it."""
        try:
            with self._stream:
                self._stream.flush()
                self._files.sync(self._stream)
        except OSError as error:
            raise file_error("write", self._whole, error) from error

    def break_off(self) -> None:
        """What is written is worth nothing; it is still to be discarded."""
        with contextlib.suppress(OSError):
            self._stream.close()

    def _table(self, table: Table) -> TableState:
        """Write a table as one segment."""
        padding = -self.length % _ALIGNMENT
        self._stream.write(bytes(padding))
        checked = _ChecksummedStream(self._stream)
        first, last, rows = -1, -1, 0
        with pa.ipc.new_stream(checked, table.schema, options=self._options) as writer:
            for piece in table.pieces:
                rows += piece.num_rows
                if table.is_keyed:
                    extent = pc.min_max(piece.column(KEY_GROUP_COLUMN)).as_py()
                    first = extent["min"] if first < 0 else min(first, extent["min"])
                    last = max(last, extent["max"])
                writer.write_batch(piece)
        offset = self.length + padding
        self.length = offset + checked.length
        segment = StateSegment(
            self.path,
            offset,
            checked.length,
            checked.checksum,
            rows,
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
        self.checksum = crc32(data, self.checksum)
        self._stream.write(data)
        self.length += len(data)

    def tell(self) -> int:
        return self.length

    def flush(self) -> None:
        """The whole file is flushed at its end."""

    def close(self) -> None:
        """Another segment follows."""


def pieces_of(rows: pa.Table | pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The rows as batches of bounded size, which are views of the table, or of what the reader reads."""
    for batch in rows.to_batches(max_chunksize=PIECE_ROWS_MAX) if isinstance(rows, pa.Table) else rows:
        count = min(-(-batch.nbytes // PIECE_BYTES_MAX), batch.num_rows)
        if count <= 1:
            if batch.num_rows:
                yield batch
            continue
        rows = -(-batch.num_rows // count)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
