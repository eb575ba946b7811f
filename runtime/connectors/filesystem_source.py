"""Reads the files of one subtask: one after another, or several at once in the order of their event times."""

from __future__ import annotations

import heapq
import os
import zlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from runtime.connectors.file_paths import find_files, local_path, root_of
from runtime.connectors.file_split import FileSplit
from runtime.connectors.file_watch import FileWatch, Look
from runtime.connectors.rejected_rows import RejectedRows, rejected_rows_directory
from runtime.connectors.row_watermarks import Milliseconds, RowWatermarks
from runtime.connectors.table_files import TableFiles
from runtime.formats.row_count import empty_columns
from sqlstream.config_option import parse_duration_ms
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.spi.format import FileReader

OPEN_FILES_DEFAULT = 16
"""Each open file has a decoded block in memory, a few megabytes; more files than this rarely overlap in time."""

_FIRST_ROWS = 256
"""How many of a file's first rows are read to find its first event time."""

_FILES_ORDERED_A_POLL = 64
"""A first look at a file takes about a millisecond, and a poll should end within a tenth of a second."""

_TURNS_A_BATCH = 16
"""Files that overlap take at most so many turns within a batch: rows are about in order of time, and pieces are not tiny."""


class FileSourceReader:
    """Emits batches of exactly `batch_rows` rows, except the last batch of all files (or of those found so far).

    Without a watermark, files are read one after another, in order of their paths. With one, each file has its own, and
    the file with the lowest watermark is read next; a file that is not open yet counts with the lower bound from its first
    rows (`FileSplit.least_ms`), and is opened in its turn, unless `source.open-files.max` files are open.

    State: a position and a watermark per file; an open file's decoded rows, one block at most. With a monitor interval, files
    that were read are remembered for good, so that none is read twice; otherwise they are forgotten.
    """

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> None:
        self._spec = spec
        self._context = context
        self._path = local_path(spec.options["path"])
        self._pattern = spec.options.get("source.path.regex-pattern", "")
        rejected = RejectedRows(rejected_rows_directory(spec), context)
        self._files = TableFiles(spec, context, self._path_root(), rejected)
        self._watermarks = RowWatermarks(spec.watermark, context) if spec.watermark is not None else None
        self._open_files_max = 1
        if self._watermarks is not None:
            self._open_files_max = int(spec.options.get("source.open-files.max", OPEN_FILES_DEFAULT))
        self._limit = spec.limit
        self._splits: dict[str, FileSplit] = {}
        self._unordered: deque[FileSplit] = deque()
        self._waiting: list[tuple[int, int, FileSplit]] = []  # a heap: watermark, place among all splits
        self._open: list[_OpenFile] = []
        self._places = 0
        self._watermark_ms = self._highest_ms = WATERMARK_MIN
        interval = spec.options.get("source.monitor-interval")
        self._interval_ms = parse_duration_ms(interval) if interval is not None else 0
        self._watch = FileWatch(self._interval_ms) if interval is not None else None
        self._looked_ms = context.now_ms()
        for split in self._found() if splits is None else [FileSplit(**s) for s in splits]:
            self._add(split)

    def _path_root(self) -> str:
        status = self._context.files.status(root_of(self._path))
        is_file = status is not None and not status.is_directory
        return os.path.dirname(self._path) or "." if is_file else root_of(self._path)

    def poll(self) -> pa.RecordBatch | SourceStatus:
        wanted = self._context.batch_rows
        if self._limit >= 0:
            wanted = min(wanted, self._limit)
            if wanted == 0:
                return SourceStatus.END
        self._look_when_due()
        if not self._order_some():
            return empty_columns(0)
        batch = self._read(wanted)
        self._advance_watermark()
        if batch is not None:
            return batch
        return SourceStatus.END if self._watch is None else SourceStatus.NOTHING_YET

    def watermark_ms(self) -> int:
        return self._watermark_ms

    def next_poll_ms(self) -> int | None:
        return None if self._watch is None else self._looked_ms + self._interval_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return [split.snapshot() for split in self._splits.values()]

    def close(self) -> None:
        for file in self._open:
            file.close()
        self._open = []
        self._files.close()

    # --- which files --------------------------------------------------------------------------------------------------

    def _found(self) -> list[FileSplit]:
        """The new splits of this subtask."""
        mine, readers = self._context.subtask, self._context.parallelism
        found = find_files(
            self._path, self._pattern, self._context.files, may_be_empty=self._watch is not None
        )
        if self._watch is None:
            return [FileSplit(status.path) for status in found[mine::readers]]
        # Indexes in the list change as files are added; the hash of a path does not.
        found = [status for status in found if zlib.crc32(status.path.encode()) % readers == mine]
        look = self._watch.look(found, self._context.now_ms())
        self._speak_of(look)
        return [
            FileSplit(f.path, watermark_ms=self._watermark_ms, size=f.size, modified_ms=f.modified_ms)
            for f in look.complete
        ]

    def _look_when_due(self) -> None:
        now_ms = self._context.now_ms()
        if self._watch is None or now_ms - self._looked_ms < self._interval_ms:
            return
        self._looked_ms = now_ms
        for split in self._found():
            self._add(split)

    def _add(self, split: FileSplit) -> None:
        self._splits[split.path] = split
        if self._watch is not None:
            self._watch.complete(split.path, split.size, split.modified_ms)
        if split.is_done:
            self._highest_ms = max(self._highest_ms, split.watermark_ms)
        elif self._watermarks is None or split.rows:
            self._wait(split)
        else:
            self._unordered.append(split)

    def _wait(self, split: FileSplit) -> None:
        self._places += 1
        heapq.heappush(self._waiting, (split.progress_ms, self._places, split))

    def _order_some(self) -> bool:
        """Read the first event times of files; returns whether they are known for all files."""
        for _ in range(_FILES_ORDERED_A_POLL):
            if not self._unordered:
                break
            split = self._unordered.popleft()
            is_alone = not (self._unordered or self._waiting or self._open)
            status = None if is_alone else self._status(split)
            if status is not None:
                self._put_in_order(split, status)
            elif is_alone:
                self._wait(split)
        return not self._unordered

    def _put_in_order(self, split: FileSplit, status: Any) -> None:
        assert self._watermarks is not None
        columns, rows = self._files.first_rows(status, self._watermarks.columns_read, _FIRST_ROWS)
        split.least_ms = self._watermarks.least_ms(columns, rows)
        self._wait(split)

    def _status(self, split: FileSplit) -> Any | None:
        """The file as it is now; None when it is not to be read, or not yet."""
        status = self._context.files.status(split.path)
        if self._watch is None:
            if status is None:
                raise UserError(
                    "SS5002",
                    f'the file "{split.path}" has vanished while table "{self._spec.table}" was read',
                    hint="run the statement again",
                )
            return status
        if status is None:
            del self._splits[split.path]
            self._watch.forget(split.path)
            self._warn(split.path, f"has vanished {'while' if split.rows else 'before'} it was read")
        elif split.rows == 0 and (status.size, status.modified_ms) != (split.size, split.modified_ms):
            del self._splits[split.path]
            self._watch.reopen(split.path, status.size, status.modified_ms)
            return None
        return status

    def _speak_of(self, look: Look) -> None:
        for path in look.changed:
            self._context.count("numFilesChanged", 1)
            self._warn(path, "has changed after it was found complete: it is not read again")
        for path in look.growing:
            self._warn(path, "is written to all the time: it is read when it has not changed for an interval")

    def _warn(self, path: str, what: str) -> None:
        self._context.print_lines([f'warning: the file "{path}" of table "{self._spec.table}" {what}'], True)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _read(self, wanted: int) -> pa.RecordBatch | None:
        pieces, missing = [], wanted
        while missing and (piece := self._turn(missing)) is not None:
            pieces.append(piece)
            missing -= piece.num_rows
        rows = wanted - missing
        if self._limit >= 0:
            self._limit -= rows
        if len(pieces) <= 1:
            return pieces[0] if pieces else None
        return pa.concat_batches(pieces) if pieces[0].num_columns else empty_columns(rows)

    def _turn(self, rows_max: int) -> pa.RecordBatch | None:
        """Rows of the file whose watermark is the lowest; None when no file has any more."""
        while (file := self._next_file()) is not None:
            if file.fill():
                rows_min = max(1, self._context.batch_rows // _TURNS_A_BATCH)
                return file.take(min(rows_max, file.rows_behind(self._rival_ms(file), rows_min)))
            self._finish(file)
        return None

    def _next_file(self) -> _OpenFile | None:
        while self._waiting and len(self._open) < self._open_files_max:
            lowest = min((f.split.progress_ms for f in self._open), default=None)
            if lowest is not None and lowest <= self._waiting[0][0]:
                break
            self._open_file(heapq.heappop(self._waiting)[2])
        return min(self._open, key=lambda f: f.split.progress_ms, default=None)

    def _rival_ms(self, file: _OpenFile) -> int | None:
        """The lowest watermark among the other files that could be read now."""
        rivals = [other.split.progress_ms for other in self._open if other is not file]
        if self._waiting and len(self._open) < self._open_files_max:
            rivals.append(self._waiting[0][0])
        return min(rivals, default=None)

    def _open_file(self, split: FileSplit) -> None:
        status = self._status(split)
        if status is not None:
            size_max = -1 if self._watch is None else split.size
            reader, batches = self._files.open(status, split.rows, size_max, bool(self._open))
            self._open.append(_OpenFile(split, reader, batches, self._watermarks))

    def _finish(self, file: _OpenFile) -> None:
        file.close()
        self._open.remove(file)
        self._highest_ms = max(self._highest_ms, file.split.watermark_ms)
        if self._watch is None:
            del self._splits[file.split.path]
        else:
            file.split.is_done = True

    def _advance_watermark(self) -> None:
        if self._watch is not None and self._watch.has_new_candidates:
            # They are complete at the next look, or change too often to wait for.
            return
        progress = [file.split.progress_ms for file in self._open]
        if self._waiting:
            progress.append(self._waiting[0][0])
        self._watermark_ms = max(self._watermark_ms, min(progress, default=self._highest_ms))


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
        taken = self._rows.slice(0, rows) if rows < self._rows.num_rows else self._rows
        self.split.rows += rows
        self._rows = self._rows.slice(rows) if rows < self._rows.num_rows else empty_columns(0)
        if self._running is not None:
            self.split.watermark_ms = int(self._running[rows - 1])
            self._running = self._running[rows:]
        return taken

    def close(self) -> None:
        self._reader.close()
