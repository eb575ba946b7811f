"""Reads what an attempt of a subtask goes on from: its key groups of what all old subtasks have saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExternalError, SqlStreamError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState, TaskRestore
from sqlstream.runtime.checkpoint.checkpoint_directory import is_away
from sqlstream.runtime.checkpoint.local_copies import StateFigures, SubtaskCopies
from sqlstream.runtime.checkpoint.manifest_file import checkpoints_away, corrupt_checkpoint
from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.kernels.checksum import crc32
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.spi.files import Files

_READ_BYTES = 4 << 20

_NO_STREAM = (pa.ArrowException, OSError, ValueError, ArithmeticError, LookupError, MemoryError, TypeError)
"""What pyarrow raises for bytes that are no stream of its own, of many kinds."""


class StateReader:
    """Gives out the saved tables of operators, once their bytes are known to be those that were written.

    A file of the local disk is mapped: its rows take memory only while they are used, and those of another key group none.
    With `copies`, what is among them and is not damaged is read there and not in the store.
    State: the files that were opened."""

    def __init__(
        self,
        files: Files,
        restore: TaskRestore,
        copies: SubtaskCopies | None = None,
        figures: StateFigures | None = None,
    ) -> None:
        self.segments = SegmentReader(files, restore.directory, copies, figures)
        self._states = restore.states

    def operator(self, operator_id: int, key_groups: range) -> OperatorSnapshot | None:
        """What this operator of a subtask with these key groups loads: its rows of all old subtasks' keyed tables, and the whole
        of all their shared tables. Tables without rows are left out; None when no subtask has saved this operator.
        ExternalError SS6210, with the reason CHECKPOINT_CORRUPT, for a file that is not as it was written."""
        saved = [o for state in self._states for o in state.operators if o.operator_id == operator_id]
        if not saved:
            return None
        return OperatorSnapshot(
            keyed=self._tables(saved, key_groups, is_keyed=True),
            shared=self._tables(saved, key_groups, is_keyed=False),
        )

    def _tables(
        self, saved: list[SavedOperator], key_groups: range, *, is_keyed: bool
    ) -> dict[str, pa.Table]:
        pieces: dict[str, list[pa.RecordBatch]] = {}
        for table in (t for operator in saved for t in operator.tables if t.is_keyed == is_keyed):
            rows = self._rows(table, key_groups)
            pieces.setdefault(table.name, []).extend(_in_order(rows, table.order) if table.order else rows)
        return {name: pa.Table.from_batches(batches) for name, batches in pieces.items() if batches}

    def _rows(self, table: TableState, key_groups: range) -> Iterator[pa.RecordBatch]:
        for segment in table.segments:
            if not table.is_keyed:
                yield from self.segments.batches(segment)
            elif segment.first_key_group < key_groups.stop and segment.last_key_group >= key_groups.start:
                yield from _of_key_groups(self.segments.batches(segment), segment, key_groups)


def _in_order(batches: Iterable[pa.RecordBatch], order: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    """The last columns in another order (see TableState.order)."""
    for batch in batches:
        first = batch.num_columns - len(order)
        yield batch.select([*range(first), *(first + place for place in order)])


class _Damaged(Exception):
    """The bytes of a segment are not those that were written."""


class _Missing(_Damaged):
    """There is no such file."""


class SegmentReader:
    """Reads segments of files below a directory, or of their `copies`. State: the files that were opened, mapped where the store
    can, and the `figures` of what was read."""

    def __init__(
        self,
        files: Files,
        directory: str,
        copies: SubtaskCopies | None = None,
        figures: StateFigures | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._copies = copies
        self._figures = figures or StateFigures()
        self._opened: dict[str, pa.NativeFile] = {}

    def batches(self, segment: StateSegment) -> Iterator[pa.RecordBatch]:
        """The rows of a segment, piece by piece; ExternalError SS6210 before the first one if the bytes are not those that were
        written. What cannot be read at all may be readable later: ExternalError SS5001, also when the whole directory is away."""
        rows = 0
        for batch in self._decoded(segment):
            rows += batch.num_rows
            if batch.num_rows:
                yield batch
        if rows != segment.rows:
            raise self._corrupt(segment, f"it has {rows} rows instead of {segment.rows}")

    def schema(self, segment: StateSegment) -> pa.Schema:
        """The columns of a segment; ExternalError SS6210 as above."""
        try:
            return pa.ipc.open_stream(self._verified(segment)).schema
        except _NO_STREAM as error:
            raise self._corrupt(segment, f"it is no Arrow stream: {error}") from error

    def _decoded(self, segment: StateSegment) -> Iterator[pa.RecordBatch]:
        data = self._verified(segment)
        try:
            stream = pa.ipc.open_stream(data)
            # Decodes them, as whoever reads the columns would.
            _ = stream.schema.names
            for batch in stream:
                # Whoever wrote the checksum may not be us: offsets that lead out of a buffer would end the process.
                batch.validate(full=True)
                yield batch
        except _NO_STREAM as error:
            raise self._corrupt(segment, f"it is no Arrow stream: {error}") from error

    def _verified(self, segment: StateSegment) -> pa.Buffer:
        if (copied := self._copied(segment)) is not None:
            return copied
        try:
            data = self._bytes(self._files, self._whole(segment), segment)
        except _Missing as error:
            if is_away(self._files, self._directory):
                raise checkpoints_away(self._directory) from error
            raise self._corrupt(segment, str(error)) from error
        except _Damaged as error:
            raise self._corrupt(segment, str(error)) from error
        self._figures.store_bytes += segment.length
        return data

    def _copied(self, segment: StateSegment) -> pa.Buffer | None:
        """The segment's bytes in the copy of its file; None without one that is as it was written."""
        if self._copies is None or (path := self._copies.find(segment.path)) is None:
            return None
        try:
            data = self._bytes(LocalFiles(), path, segment)
        except (_Damaged, SqlStreamError) as error:
            self._copies.damaged(segment.path, str(error))
            return None
        self._figures.local_bytes += segment.length
        return data

    def _bytes(self, files: Files, path: str, segment: StateSegment) -> pa.Buffer:
        file = self._file(files, path)
        if file.size() < segment.offset + segment.length:
            raise _Damaged(f"it has only {file.size()} bytes")
        try:
            # In a mapped file a sector that the disk cannot read would end the process: it is read as a stream before.
            is_mapped = isinstance(file, pa.BufferReader)
            checksum = _streamed(files, path, segment) if is_mapped else None
            file.seek(segment.offset)
            data = file.read_buffer(segment.length)
        except OSError as error:
            raise file_error("read", path, error) from error
        if (crc32(data) if checksum is None else checksum) != segment.checksum:
            raise _Damaged("its bytes are not those that were written")
        return data

    def _file(self, files: Files, path: str) -> pa.NativeFile:
        if path not in self._opened:
            if files.status(path) is None:
                raise _Missing("there is no such file")
            self._opened[path] = files.map_read(path)
        return self._opened[path]

    def _whole(self, segment: StateSegment) -> str:
        return f"{self._directory}/{segment.path}"

    def _corrupt(self, segment: StateSegment, problem: str) -> ExternalError:
        return corrupt_checkpoint(self._whole(segment), problem)


def _streamed(files: Files, path: str, segment: StateSegment) -> int:
    """The CRC-32 of a segment's bytes, without mapping them."""
    checksum, left = 0, segment.length
    piece = memoryview(bytearray(min(_READ_BYTES, max(left, 1))))
    with files.open_read(path) as stream:
        stream.seek(segment.offset)
        while left:
            read = stream.readinto(piece[: min(left, len(piece))])  # type: ignore[attr-defined]
            if not read:
                break
            checksum = crc32(piece[:read], checksum)
            left -= read
    return checksum


def _of_key_groups(
    batches: Iterable[pa.RecordBatch], segment: StateSegment, key_groups: range
) -> Iterator[pa.RecordBatch]:
    """The rows of these key groups: as they are, when all of the segment's are."""
    if key_groups.start <= segment.first_key_group and segment.last_key_group < key_groups.stop:
        yield from batches
        return
    for batch in batches:
        groups = batch.column(KEY_GROUP_COLUMN)
        own = batch.filter(
            pc.and_(pc.greater_equal(groups, key_groups.start), pc.less(groups, key_groups.stop))
        )
        if own.num_rows:
            yield own
