"""Finds the files of a table, once or again and again."""

from __future__ import annotations

from typing import Any

from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import find_files
from sqlstream.runtime.connectors.files.file_watch import FileWatch
from sqlstream.runtime.connectors.files.path_pattern import PathPattern
from sqlstream.runtime.connectors.files.rejected_rows import read_path
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import Discovery, EnumeratorContext, SourceSplit
from sqlstream.spi.files import FileStatus

OPENING_BYTES = 1 << 16
"""What opening a file costs, in bytes that are read meanwhile: many small files weigh something."""

CHANGED = "changed"
GROWING = "growing"


class FileEnumerator:
    """Each file is a split, in order of the paths. With `source.monitor-interval` there is always a next look, and a file is
    found once it is complete (`FileWatch`). A file that changes later, or all the time, is named to a reader in a split with a
    `notice`, because readers can tell the user.

    Files of a table with a watermark, and those that are found later, have their reader at once: only so does each reader know
    the earliest time that it has still to read. Other files wait until a reader asks.

    State: that of the watch.
    """

    def __init__(self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None) -> None:
        self._context = context
        options = FileOptions.of(spec.options)
        self._path = read_path(options)
        self._may_be_empty = options.reads_rejected_rows or options.monitor_interval_ms is not None
        self._pattern = PathPattern(options.path_pattern or "")
        self._is_on_demand = spec.watermark is None
        interval_ms = options.monitor_interval_ms
        self.interval_ms = interval_ms or 0
        self._watch = FileWatch(interval_ms) if interval_ms is not None else None
        self._has_ended = state is not None and self._watch is None
        if self._watch is not None and state is not None:
            self._watch.restore(state)

    def discover(self) -> Discovery:
        if self._has_ended:
            return Discovery((), is_last=True, is_on_demand=self._is_on_demand)
        found = find_files(self._path, self._context.files, may_be_empty=self._may_be_empty)
        may_match = self._pattern.may_match([status.path for status in found])
        found = [status for status, is_wanted in zip(found, may_match, strict=True) if is_wanted]
        if self._watch is None:
            return Discovery(tuple(map(_split, found)), is_last=True, is_on_demand=self._is_on_demand)
        look = self._watch.look(found, self._context.now_ms())
        notices = [(path, CHANGED) for path in look.changed] + [(path, GROWING) for path in look.growing]
        said = (SourceSplit({"path": path, "notice": notice}) for path, notice in notices)
        splits = (*map(_split, look.complete), *said)
        return Discovery(splits, is_last=False, holds_watermark=self._watch.has_new_candidates)

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        if self._watch is None:
            return
        for position in positions:
            self._watch.reopen(position["path"], position["size"], position["modified_ms"])

    def snapshot(self) -> dict[str, Any]:
        return self._watch.snapshot() if self._watch is not None else {}


def _split(status: FileStatus) -> SourceSplit:
    position = {"path": status.path, "size": status.size, "modified_ms": status.modified_ms}
    return SourceSplit(position, status.size + OPENING_BYTES)
