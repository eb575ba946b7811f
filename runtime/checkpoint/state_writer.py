"""Writes what one subtask saves into one file: an Arrow IPC stream per table, each with its checksum."""

from __future__ import annotations

import contextlib
import secrets
import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from runtime.host.files import file_error
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState, state_path
from sqlstream.spi.files import Files

PIECE_ROWS_MAX = 1 << 17
PIECE_BYTES_MAX = 16 << 20
"""A record batch of a file has at most so many rows and about so many bytes: what reading one takes."""

_ALIGNMENT = 64
"""Segments start at multiples of this, so that the columns of a mapped file are aligned as Arrow's own memory is."""


def state_name(execution_id: str, checkpoint_id: int) -> str:
    """Under what name an attempt writes its state of a checkpoint; another at each call, as a JobManager that starts anew may use
    the ids of one that has died, whose tasks may still write."""
    return f"{execution_id}-{secrets.token_hex(4)}-{checkpoint_id}"


class StateWriter:
    """Writes the state of subtasks below the directory of a job's checkpoints.

    A name is written once; the file is at its path whole and durable when `write` returns, and is not there when it fails. Rows
    stay in their order, and memory is bounded: what is written is a view of the snapshot, but for the pieces of compressed
    columns. No state."""

    def __init__(self, files: Files, directory: str, *, is_compressed: bool = False) -> None:
        self._files = files
        self._directory = directory
        self._options = pa.ipc.IpcWriteOptions(compression="lz4" if is_compressed else None)

    def write(self, name: str, snapshots: Mapping[int, OperatorSnapshot]) -> tuple[SavedOperator, ...]:
        """The tables of one subtask's operators, by operator id; without any table no file is written. ExternalError SS5001 with
        the cause when the store takes no more.

        Every table has the one segment that was written: it follows those of an earlier checkpoint when it is an increment."""
        path = state_path(name)
        if not any(snapshot.keyed or snapshot.shared for snapshot in snapshots.values()):
            return tuple(SavedOperator(operator_id, ()) for operator_id in snapshots)
        stream = self._files.open_write(self._whole(path))
        try:
            with stream:
                file = _StateFile(path, stream, self._options)
                saved = tuple(file.operator(number, snapshot) for number, snapshot in snapshots.items())
                stream.flush()
                self._files.sync(stream)
        except BaseException as error:
            # Of a store that fails this may fail too: the sweep of the job's files finds what is left.
            with contextlib.suppress(ExternalError):
                self.discard(name)
            if isinstance(error, OSError):
                raise file_error("write", self._whole(path), error) from error
            raise
        return saved

    def discard(self, name: str) -> None:
        """Remove the file of this name, if there is one."""
        self._files.remove(self._whole(state_path(name)))

    def _whole(self, path: str) -> str:
        return f"{self._directory}/{path}"


class _StateFile:
    """A file while it is written. State: its length so far."""

    def __init__(self, path: str, stream: BinaryIO, options: pa.ipc.IpcWriteOptions) -> None:
        self._path = path
        self._stream = stream
        self._options = options
        self._length = 0

    def operator(self, operator_id: int, snapshot: OperatorSnapshot) -> SavedOperator:
        keyed = [
            TableState(name, True, (self._segment(table, True, name in snapshot.increments),))
            for name, table in snapshot.keyed.items()
        ]
        shared = [TableState(name, False, (self._segment(t, False),)) for name, t in snapshot.shared.items()]
        return SavedOperator(operator_id, (*keyed, *shared))

    def _segment(self, table: pa.Table, is_keyed: bool, is_increment: bool = False) -> StateSegment:
        padding = -self._length % _ALIGNMENT
        self._stream.write(bytes(padding))
        checked = _ChecksummedStream(self._stream)
        first, last = -1, -1
        with pa.ipc.new_stream(checked, table.schema, options=self._options) as writer:
            for piece in pieces_of(table):
                if is_keyed:
                    extent = pc.min_max(piece.column(KEY_GROUP_COLUMN)).as_py()
                    first = extent["min"] if first < 0 else min(first, extent["min"])
                    last = max(last, extent["max"])
                writer.write_batch(piece)
        offset = self._length + padding
        self._length = offset + checked.length
        return StateSegment(
            self._path, offset, checked.length, checked.checksum, table.num_rows, first, last, is_increment
        )


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
