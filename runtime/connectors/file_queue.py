"""The files of one subtask: which there are, and the order in which they are to be opened."""

from __future__ import annotations

import heapq
import zlib
from collections import deque
from typing import Any

from runtime.connectors.file_paths import find_files
from runtime.connectors.file_split import FileSplit
from runtime.connectors.file_watch import FileWatch, Look
from runtime.connectors.row_watermarks import RowWatermarks
from runtime.connectors.table_files import TableFiles
from runtime.host.files import FileStatus
from sqlstream.config_option import parse_duration_ms
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext

FIRST_ROWS = 256
"""How many of a file's first rows are read to find its first event time."""

_ORDER_MS = 50
"""How long one call of `order_some` may take, give or take one file: a poll should end within a tenth of a second."""


class FileQueue:
    """The files that are not open yet. Without watermarks they come in order of their paths, else in order of the lower
    bounds that their first rows give (`FileSplit.least_ms`).

    The bounds come from the first rows in every format. Parquet's statistics would not do: they hold the least value of a
    column where the bound is that of an expression, writers may leave them out or cut them short, and the least time of a
    whole file lies before its first rows when it is out of order, so that the file would be opened too early.

    State: a split for each file that is not read to its end. With a monitor interval, files that were read are remembered for
    good, so that none is read twice.
    """

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        path: str,
        files: TableFiles,
        watermarks: RowWatermarks | None,
        splits: list[dict[str, Any]] | None,
    ) -> None:
        self._spec = spec
        self._context = context
        self._path = path
        self._pattern = spec.options.get("source.path.regex-pattern", "")
        self._files = files
        self._watermarks = watermarks
        self._splits: dict[str, FileSplit] = {}
        self._unordered: deque[FileSplit] = deque()
        self._waiting: list[tuple[int, int, FileSplit]] = []  # a heap: watermark, place among all splits
        self._places = 0
        self.finished_ms = WATERMARK_MIN
        """The highest watermark of a file that was read to its end."""
        interval = spec.options.get("source.monitor-interval")
        self._interval_ms = parse_duration_ms(interval) if interval is not None else 0
        self._watch = FileWatch(self._interval_ms) if interval is not None else None
        self._looked_ms = context.now_ms()
        found = self._found(WATERMARK_MIN) if splits is None else [FileSplit(**s) for s in splits]
        for split in found:
            self._add(split)

    @property
    def is_watched(self) -> bool:
        """Whether files are looked for again and again (`source.monitor-interval`)."""
        return self._watch is not None

    @property
    def has_new_candidates(self) -> bool:
        """Whether files were found that may be complete at the next look."""
        return self._watch is not None and self._watch.has_new_candidates

    def next_look_ms(self) -> int | None:
        return None if self._watch is None else self._looked_ms + self._interval_ms

    def next_ms(self) -> int | None:
        """The lower bound of the watermark of the file that is to be opened next; None when no file is left."""
        return self._waiting[0][0] if self._waiting else None

    def snapshot(self) -> list[dict[str, Any]]:
        return [split.snapshot() for split in self._splits.values()]

    def look_when_due(self, watermark_ms: int) -> None:
        """Find new files; their watermarks begin with the reader's."""
        now_ms = self._context.now_ms()
        if self._watch is None or now_ms - self._looked_ms < self._interval_ms:
            return
        self._looked_ms = now_ms
        for split in self._found(watermark_ms):
            self._add(split)

    def order_some(self, is_reading: bool) -> bool:
        """Read the first event times of files for `_ORDER_MS`; returns whether they are known for all files. `is_reading`:
        whether a file is open, without which a single file needs no order."""
        begun_ms = self._context.now_ms()
        while self._unordered:
            split = self._unordered.popleft()
            if not (self._unordered or self._waiting or is_reading):
                self._wait(split)
            elif (status := self._status(split)) is not None:
                self._put_in_order(split, status)
            # The clock may have been set back.
            if not 0 <= self._context.now_ms() - begun_ms < _ORDER_MS:
                break
        return not self._unordered

    def take(self) -> tuple[FileSplit, FileStatus] | None:
        """The next file; None when it turned out that it is not to be read, or not yet. There must be one (`next_ms`)."""
        split = heapq.heappop(self._waiting)[2]
        status = self._status(split)
        return None if status is None else (split, status)

    def finish(self, split: FileSplit) -> None:
        """The file was read to its end."""
        self.finished_ms = max(self.finished_ms, split.watermark_ms)
        if self._watch is None:
            del self._splits[split.path]
        else:
            split.is_done = True

    def _found(self, watermark_ms: int) -> list[FileSplit]:
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
        self._report(look)
        return [
            FileSplit(f.path, watermark_ms=watermark_ms, size=f.size, modified_ms=f.modified_ms)
            for f in look.complete
        ]

    def _add(self, split: FileSplit) -> None:
        self._splits[split.path] = split
        if self._watch is not None:
            self._watch.complete(split.path, split.size, split.modified_ms)
        if split.is_done:
            self.finished_ms = max(self.finished_ms, split.watermark_ms)
        elif self._watermarks is None or split.rows:
            self._wait(split)
        else:
            self._unordered.append(split)

    def _wait(self, split: FileSplit) -> None:
        self._places += 1
        heapq.heappush(self._waiting, (split.progress_ms, self._places, split))

    def _put_in_order(self, split: FileSplit, status: FileStatus) -> None:
        assert self._watermarks is not None
        columns, rows = self._files.first_rows(status, self._watermarks.columns_read, FIRST_ROWS)
        split.least_ms = self._watermarks.least_ms(columns, rows)
        self._wait(split)

    def _status(self, split: FileSplit) -> FileStatus | None:
        """The file as it is now; None when it is not to be read, or not yet."""
        status: FileStatus | None = self._context.files.status(split.path)
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

    def _report(self, look: Look) -> None:
        for path in look.changed:
            self._context.count("numFilesChanged", 1)
            self._warn(path, "has changed after it was found complete: it is not read again")
        for path in look.growing:
            self._warn(path, "is written to all the time: it is read when it has not changed for an interval")

    def _warn(self, path: str, what: str) -> None:
        self._context.print_lines([f'warning: the file "{path}" of table "{self._spec.table}" {what}'], True)
