"""The files that a reader has still to open, and the order in which it opens them."""

from __future__ import annotations

import dataclasses
import heapq
from collections import deque
from collections.abc import Iterable
from typing import Any

from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_enumerator import CHANGED
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import PathPattern
from sqlstream.runtime.connectors.files.table_files import TableFiles
from sqlstream.runtime.connectors.row_watermarks import RowWatermarks
from sqlstream.spi.connector import FOR_EVERY_READER, ConnectorContext
from sqlstream.spi.files import FileStatus


@dataclasses.dataclass
class FileSplit:
    """A file of this subtask, of which `rows` rows were emitted. `size` and `modified_ms` are those of the file when it was
    found. Of a file that is added to (`GrowthWatch`) it is the lines from the byte `begin` to `size`.

    `watermark_ms` is the file's own: the highest watermark of the emitted rows, at first that of the reader when it found
    the file. `least_ms` is what the first rows promise before they are emitted: none of the file's rows becomes late by it.
    """

    path: str
    size: int
    modified_ms: int
    rows: int = 0
    watermark_ms: int = WATERMARK_MIN
    least_ms: int = WATERMARK_MIN
    begin: int = 0

    @property
    def name(self) -> tuple[str, int]:
        return self.path, self.begin

    @property
    def progress_ms(self) -> int:
        """The watermark that the file allows its reader."""
        return max(self.watermark_ms, self.least_ms)

    def snapshot(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


FIRST_ROWS = 256
"""How many of a file's first rows are read to find its first event time."""

_ORDER_MS = 50
"""How long one call of `order_some` may take, give or take one file: a poll should end within a tenth of a second."""

_REACHED = "reached_ms"
"""In a snapshot, the watermark of files that were read: that of files which are found later begins there."""


class FileQueue:
    """The files that are not open yet. Without watermarks, and with changes of rows, they come in the order in which they were
    added. Else they come in order of the lower bounds that their first rows give (`FileSplit.least_ms`).

    The bounds come from the first rows in every format. Parquet's statistics would not do. They hold the least value of a column,
    where the bound is that of an expression, and writers may leave them out or cut them short. A file that is out of order would
    be opened too early: its least time lies before that of its first rows.

    In a watched directory a file that is not as it was found is given back, since it may be complete in another form later;
    elsewhere it is an error. State: a split for each file that is not read to its end, and those that were given back and not
    confirmed.
    """

    def __init__(
        self,
        table: str,
        options: FileOptions,
        context: ConnectorContext,
        files: TableFiles,
        watermarks: RowWatermarks | None,
    ) -> None:
        self._table = table
        self._context = context
        self._pattern = PathPattern(options.path_pattern or "")
        self._files = files
        self._watermarks = watermarks
        self._splits: dict[tuple[str, int], FileSplit] = {}
        self._unordered: deque[FileSplit] = deque()
        self._waiting: list[tuple[int, int, FileSplit]] = []  # a heap: watermark, place among all splits
        self._places = 0
        self.is_watched = options.monitor_interval_ms is not None
        """Whether files come for ever."""
        self._are_added_to = options.reads_rejected_rows
        self.finished_ms = WATERMARK_MIN
        """The highest watermark of a file that was read to its end."""
        self.given_back: list[dict[str, Any]] = []
        """Files that are not read as they were found, but for those that are known to be looked for again."""
        self._confirmed = 0

    @property
    def has_waiting(self) -> bool:
        """Whether a file is left to be opened."""
        return bool(self._waiting or self._unordered)

    def next_ms(self) -> int | None:
        """The lower bound of the watermarks of all files that are left; None when none is."""
        if self._files.holds_changes:
            return min((split.progress_ms for _, _, split in self._waiting), default=None)
        return self._waiting[0][0] if self._waiting else None

    def snapshot(self) -> list[dict[str, Any]]:
        # Before any row it is what every reader begins with.
        is_reached = self.is_watched and self._watermarks is not None and self.finished_ms > WATERMARK_MIN
        reached = [{_REACHED: self.finished_ms, FOR_EVERY_READER: True}] if is_reached else []
        return [*(split.snapshot() for split in self._splits.values()), *reached]

    def add(self, positions: Iterable[dict[str, Any]], watermark_ms: int) -> None:
        """Further files, whose watermarks begin with the reader's."""
        positions = list(positions)
        if reached := [position[_REACHED] for position in positions if _REACHED in position]:
            # Those of several readers: files that are found later may be of the one that is behind.
            self.finished_ms = max(self.finished_ms, min(reached))
        for position in positions:
            if "notice" in position:
                self._say(position["path"], position["notice"])
            elif _REACHED not in position and self._pattern.matches(position["path"]):
                split = FileSplit(**position)
                split.watermark_ms = max(split.watermark_ms, watermark_ms)
                self._add(split)

    def confirm_given_back(self, count: int) -> None:
        """The first `count` files that were given back are looked for again."""
        del self.given_back[: count - self._confirmed]
        self._confirmed = count

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
        """The next file; None when it turned out that it is not to be read as it is. There must be one (`next_ms`)."""
        split = heapq.heappop(self._waiting)[2]
        status = self._status(split)
        return None if status is None else (split, status)

    def finish(self, split: FileSplit) -> None:
        """The file was read to its end."""
        self.finished_ms = max(self.finished_ms, split.watermark_ms)
        del self._splits[split.name]

    def _add(self, split: FileSplit) -> None:
        self._splits[split.name] = split
        if self._watermarks is None or split.rows:
            self._wait(split)
        else:
            self._unordered.append(split)

    def _wait(self, split: FileSplit) -> None:
        self._places += 1
        urgency_ms = 0 if self._files.holds_changes else split.progress_ms
        heapq.heappush(self._waiting, (urgency_ms, self._places, split))

    def _put_in_order(self, split: FileSplit, status: FileStatus) -> None:
        assert self._watermarks is not None
        columns, rows = self._files.first_rows(status, self._watermarks.columns_read, FIRST_ROWS)
        split.least_ms = self._watermarks.least_ms(columns, rows)
        self._wait(split)

    def _status(self, split: FileSplit) -> FileStatus | None:
        """The file as it is; None when it is not to be read so."""
        status: FileStatus | None = self._context.files.status(split.path)
        if not self.is_watched:
            if status is None:
                raise UserError(
                    "SS5002",
                    f'the file "{split.path}" has vanished while table "{self._table}" was read',
                    hint="run the statement again",
                )
            return status
        if status is None:
            self._give_back(split)
            self._warn(split.path, f"has vanished {'while' if split.rows else 'before'} it was read")
        elif self._are_added_to:
            return status
        elif split.rows == 0 and (status.size, status.modified_ms) != (split.size, split.modified_ms):
            self._give_back(split)
            return None
        return status

    def _give_back(self, split: FileSplit) -> None:
        del self._splits[split.name]
        self.given_back.append({"path": split.path, "size": split.size, "modified_ms": split.modified_ms})

    def _say(self, path: str, notice: str) -> None:
        if not self._pattern.matches(path):
            return
        if notice == CHANGED:
            self._context.count("numFilesChanged", 1)
            self._warn(path, "has changed after it was found complete: it is not read again")
        else:
            self._warn(path, "is written to all the time: it is read when it has not changed for an interval")

    def _warn(self, path: str, what: str) -> None:
        self._context.print_lines([f'warning: the file "{path}" of table "{self._table}" {what}'], True)
