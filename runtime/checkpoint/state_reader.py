"""Reads what an attempt of a subtask goes on from: its key groups of what all old subtasks have saved."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.checkpoint.corrupt import corrupt_checkpoint
from runtime.host.files import file_error
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState, TaskRestore
from sqlstream.spi.files import Files

_READ_BYTES = 4 << 20


class StateReader:
    """Gives out the saved tables of operators, once their bytes are known to be those that were written.

    A file of the local disk is mapped: its rows take memory only while they are used, and those of another key group none.
    State: the files that were opened."""

    def __init__(self, files: Files, restore: TaskRestore) -> None:
        self._segments = SegmentReader(files, restore.directory)
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
            pieces.setdefault(table.name, []).extend(self._rows(table, key_groups))
        return {name: pa.Table.from_batches(batches) for name, batches in pieces.items() if batches}

    def _rows(self, table: TableState, key_groups: range) -> Iterator[pa.RecordBatch]:
        for segment in table.segments:
            if not table.is_keyed:
                yield from self._segments.batches(segment)
            elif segment.first_key_group < key_groups.stop and segment.last_key_group >= key_groups.start:
                yield from _of_key_groups(self._segments.batches(segment), segment, key_groups)


class SegmentReader:
    """Reads segments of files below a directory. State: the files that were opened, mapped where the store can."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._opened: dict[str, pa.NativeFile] = {}

    def batches(self, segment: StateSegment) -> Iterator[pa.RecordBatch]:
        """The rows of a segment, piece by piece; ExternalError SS6210 before the first one if the bytes are not those that were
        written. What cannot be read at all may be readable later: ExternalError SS5001."""
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
        except pa.ArrowException as error:
            raise self._corrupt(segment, str(error)) from error

    def _decoded(self, segment: StateSegment) -> Iterator[pa.RecordBatch]:
        data = self._verified(segment)
        try:
            yield from pa.ipc.open_stream(data)
        except pa.ArrowException as error:
            raise self._corrupt(segment, str(error)) from error

    def _verified(self, segment: StateSegment) -> pa.Buffer:
        file = self._file(segment)
        if file.size() < segment.offset + segment.length:
            raise self._corrupt(segment, f"it has only {file.size()} bytes")
        try:
            # In a mapped file a sector that the disk cannot read would end the process: it is read as a stream before.
            checksum = self._streamed(segment) if isinstance(file, pa.BufferReader) else None
            file.seek(segment.offset)
            data = file.read_buffer(segment.length)
        except OSError as error:
            raise file_error("read", self._whole(segment), error) from error
        if (zlib.crc32(data) if checksum is None else checksum) != segment.checksum:
            raise self._corrupt(segment, "its bytes are not those that were written")
        return data

    def _streamed(self, segment: StateSegment) -> int:
        """The CRC-32 of the segment's bytes."""
        checksum, left = 0, segment.length
        piece = memoryview(bytearray(min(_READ_BYTES, max(left, 1))))
        with self._files.open_read(self._whole(segment)) as stream:
            stream.seek(segment.offset)
            while left:
                read = stream.readinto(piece[: min(left, len(piece))])  # type: ignore[attr-defined]
                if not read:
                    break
                checksum = zlib.crc32(piece[:read], checksum)
                left -= read
        return checksum

    def _file(self, segment: StateSegment) -> pa.NativeFile:
        if segment.path not in self._opened:
            path = self._whole(segment)
            if self._files.status(path) is None:
                raise self._corrupt(segment, "there is no such file")
            self._opened[segment.path] = self._files.map_read(path)
        return self._opened[segment.path]

    def _whole(self, segment: StateSegment) -> str:
        return f"{self._directory}/{segment.path}"

    def _corrupt(self, segment: StateSegment, problem: str) -> ExternalError:
        return corrupt_checkpoint(self._whole(segment), problem)


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
