"""Reads the files of one subtask: one after another, or several at once in the order of their event times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds
from sqlstream.changelog import RowKind
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import table_root
from sqlstream.runtime.connectors.files.file_queue import FileQueue, FileSplit
from sqlstream.runtime.connectors.files.rejected_rows import read_path, rejected_rows_directory
from sqlstream.runtime.connectors.files.table_files import TableFiles
from sqlstream.runtime.connectors.rejected_rows import RejectedRows
from sqlstream.runtime.connectors.row_watermarks import Milliseconds, RowWatermarks
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import AssignedSplits, ConnectorContext, SourceStatus
from sqlstream.spi.format import FileReader

AWAITING_MS = 1_000
"""How long a reader that awaits files is left alone; they are read as soon as they come."""

_ENOUGH_ROWS = 16_384
"""Operators take a batch of so many rows at about the cost a row of a larger one."""

_TURNS_A_BATCH = 16
"""Files that overlap take at most so many turns within a batch: rows are about in order of time, and pieces are not tiny."""


class FileSourceReader:
    """Emits batches of `batch_rows` rows, or of fewer that were decoded together and are enough, except the last batch of all
    files (or of those that it has so far); one row more where a batch would end with a -U.

    Without a watermark, and with changes of rows, files are read one after another, in the order in which they are assigned.
    Else each file has a watermark of its own, and the file with the lowest watermark is read next. A file that is not open yet
    counts with the lower bound from its first rows (`FileSplit.least_ms`). It is opened in its turn, unless
    `source.open-files.max` files are open. A file that is ahead of other tables (`align`) is read up to the row that brings its
    watermark there.

    State: a position and a watermark per file, in the queue; an open file's decoded rows, one block at most.
    """

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._context = context
        options = FileOptions.of(spec.options)
        path = read_path(options)
        rejected = RejectedRows(
            rejected_rows_directory(spec),
            context,
            options.rejected_rows_bytes_max,
            options.rejected_rows_retention_ms,
        )
        self._files = TableFiles(spec, context, table_root(path, context.files), rejected)
        self._watermarks = RowWatermarks(spec.watermark, context) if spec.watermark is not None else None
        self._open_files_max = 1
        if self._watermarks is not None and not self._files.holds_changes:
            self._open_files_max = options.open_files_max
        self._limit = spec.limit
        self._open: list[_OpenFile] = []
        self._watermark_ms = WATERMARK_MIN
        self._queue = FileQueue(spec.table, options, context, self._files, self._watermarks)
        self._queue.add(splits, WATERMARK_MIN)
        self._has_all = True
        self._holds_watermark = False
        self._aligned_ms = WATERMARK_MAX
        self._is_ahead = False

    def align(self, watermark_ms: int) -> None:
        self._aligned_ms = watermark_ms

    def poll(self) -> pa.RecordBatch | SourceStatus:
        wanted = self._context.batch_rows
        if self._limit >= 0:
            wanted = min(wanted, self._limit)
            if wanted == 0:
                return SourceStatus.END
        if not self._queue.order_some(is_reading=bool(self._open)):
            return empty_columns(0)
        batch = self._read(wanted)
        self._advance_watermark()
        if batch is not None:
            return batch
        return SourceStatus.END if self._has_all and not self._is_ahead else SourceStatus.NOTHING_YET

    def add_splits(self, assigned: AssignedSplits) -> None:
        self._queue.add(assigned.positions, self._watermark_ms)
        self._queue.confirm_given_back(assigned.returned)
        self._has_all = assigned.is_last
        self._holds_watermark = assigned.holds_watermark

    @property
    def wants_splits(self) -> bool:
        # With a watermark all files have to be known; else the next one is asked for while the last one is read.
        return self._queue.is_watched or self._watermarks is not None or not self._queue.has_waiting

    @property
    def returned_splits(self) -> tuple[dict[str, Any], ...]:
        return tuple(self._queue.given_back)

    def watermark_ms(self) -> int:
        return self._watermark_ms

    def next_poll_ms(self) -> int | None:
        # Further files wake the task.
        return self._context.now_ms() + AWAITING_MS

    def snapshot(self) -> list[dict[str, Any]]:
        return self._queue.snapshot()

    def close(self) -> None:
        for file in self._open:
            file.close()
        self._open = []
        self._files.close()

    def _read(self, wanted: int) -> pa.RecordBatch | None:
        # To join pieces copies them.
        enough = min(wanted, _ENOUGH_ROWS)
        pieces, missing = [], wanted
        while wanted - missing < enough and (piece := self._turn(missing)) is not None:
            pieces.append(piece)
            missing -= piece.num_rows
        rows = wanted - missing
        if self._limit >= 0:
            self._limit -= rows
        if len(pieces) <= 1:
            return pieces[0] if pieces else None
        return pa.concat_batches(pieces) if pieces[0].num_columns else empty_columns(rows)

    def _turn(self, rows_max: int) -> pa.RecordBatch | None:
        """Rows of the file whose watermark is the lowest; None when no file has any more, or it is ahead of other tables."""
        while (file := self._next_file()) is not None:
            self._is_ahead = file.split.progress_ms > self._aligned_ms
            if self._is_ahead:
                return None
            if file.fill():
                rows_min = max(1, self._context.batch_rows // _TURNS_A_BATCH)
                rows = min(rows_max, file.rows_behind(self._rival_ms(file), rows_min))
                return file.take(min(rows, file.rows_behind(self._aligned_ms, 1)))
            self._finish(file)
        return None

    def _next_file(self) -> _OpenFile | None:
        while len(self._open) < self._open_files_max and (next_ms := self._queue.next_ms()) is not None:
            lowest = min((f.split.progress_ms for f in self._open), default=None)
            if lowest is not None and lowest <= next_ms:
                break
            self._open_next()
        return min(self._open, key=lambda f: f.split.progress_ms, default=None)

    def _rival_ms(self, file: _OpenFile) -> int | None:
        """The lowest watermark among the other files that could be read now."""
        rivals = [other.split.progress_ms for other in self._open if other is not file]
        if len(self._open) < self._open_files_max and (next_ms := self._queue.next_ms()) is not None:
            rivals.append(next_ms)
        return min(rivals, default=None)

    def _open_next(self) -> None:
        taken = self._queue.take()
        if taken is not None:
            split, status = taken
            size_max = split.size - split.begin if self._queue.is_watched else -1
            reader, batches = self._files.open(status, split.rows, size_max, bool(self._open), split.begin)
            self._open.append(_OpenFile(split, reader, batches, self._watermarks))

    def _finish(self, file: _OpenFile) -> None:
        file.close()
        self._open.remove(file)
        self._queue.finish(file.split)

    def _advance_watermark(self) -> None:
        if self._holds_watermark or self._queue.given_back:
            # What was given back holds it until the next look, which says what has become of it.
            return
        progress = [file.split.progress_ms for file in self._open]
        if (next_ms := self._queue.next_ms()) is not None:
            progress.append(next_ms)
        self._watermark_ms = max(self._watermark_ms, min(progress, default=self._queue.finished_ms))


class _OpenFile:
    """A file being read. State: decoded rows that are not emitted yet, with the watermark after each of them."""

    def __init__(
        self,
        split: FileSplit,
        reader: FileReader,
        batches: Iterator[pa.RecordBatch],
        watermarks: RowWatermarks | None,
    ) -> None:
        self.split = split
        self._reader = reader
        self._batches = batches
        self._watermarks = watermarks
        self._rows = empty_columns(0)
        self._running: Milliseconds | None = None

    def fill(self) -> bool:
        """Decode the next block unless rows are left; returns False at the end of the file."""
        while self._rows.num_rows == 0:
            rows = next(self._batches, None)
            if rows is None:
                return False
            if rows.num_rows and self._watermarks is not None:
                rows, self._running = self._watermarks.extended(rows, self.split.watermark_ms)
            self._rows = rows
        return True

    def rows_behind(self, rival_ms: int | None, rows_min: int) -> int:
        """How many rows there are, up to the one that brings the watermark past `rival_ms`; at least `rows_min` if there
        are as many."""
        if rival_ms is None or self._running is None or self._running[-1] <= rival_ms:
            return self._rows.num_rows
        passing = int(self._running.searchsorted(rival_ms, side="right"))
        return min(self._rows.num_rows, max(passing + 1, rows_min))

    def take(self, rows: int) -> pa.RecordBatch:
        """So many rows, or one more that belongs to the last one of them."""
        if rows < self._rows.num_rows and is_changelog(self._rows):
            rows += int(row_kinds(self._rows)[rows - 1] == RowKind.UPDATE_BEFORE)
        taken = self._rows.slice(0, rows) if rows < self._rows.num_rows else self._rows
        self.split.rows += rows
        self._rows = self._rows.slice(rows) if rows < self._rows.num_rows else empty_columns(0)
        if self._running is not None:
            self.split.watermark_ms = int(self._running[rows - 1])
            self._running = self._running[rows:]
        return taken

    def close(self) -> None:
        self._reader.close()
