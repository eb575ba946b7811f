"""Finds the files of a table, once or again and again."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from sqlstream.errors import SqlStreamError
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import PathPattern, find_files
from sqlstream.runtime.connectors.files.rejected_rows import read_path
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import Discovery, EnumeratorContext, SourceSplit
from sqlstream.spi.files import Files, FileStatus

OPENING_BYTES = 1 << 16
"""What opening a file costs, in bytes that are read meanwhile: many small files weigh something."""

CHANGED = "changed"
GROWING = "growing"


class FileEnumerator:
    """Each file is a split, in order of the paths. With `source.monitor-interval` there is always a next look, and a file is
    found once it is complete (`FileWatch`). A file that changes later, or all the time, is named in a split with a `notice`: the
    reader that gets it tells the user. Of rejected rows, what has been added to a file is a split (`GrowthWatch`).

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
        self._watch: FileWatch | GrowthWatch | None = None
        if interval_ms is not None:
            # These files are only added to, for as long as their job runs.
            self._watch = (
                GrowthWatch(context.files) if options.reads_rejected_rows else FileWatch(interval_ms)
            )
        self._has_ended = state is not None and self._watch is None
        if self._watch is not None and state is not None:
            self._watch.restore(state)

    def discover(self) -> Discovery:
        if self._has_ended:
            return Discovery((), is_last=True, is_on_demand=self._is_on_demand)
        # A look is no snapshot: it may miss a file that comes meanwhile and see one that comes behind it. By the time before it
        # none of those is complete yet, so that files are found in the order in which they came.
        begun_ms = self._context.now_ms()
        found = self._pattern.among(
            find_files(self._path, self._context.files, may_be_empty=self._may_be_empty)
        )
        if self._watch is None:
            return Discovery(tuple(map(_split, found)), is_last=True, is_on_demand=self._is_on_demand)
        if isinstance(self._watch, GrowthWatch):
            return Discovery(tuple(self._watch.look(found)), is_last=False)
        look = self._watch.look(found, begun_ms)
        notices = [(path, CHANGED) for path in look.changed] + [(path, GROWING) for path in look.growing]
        said = (SourceSplit({"path": path, "notice": notice}) for path, notice in notices)
        splits = (*map(_split, look.complete), *said)
        return Discovery(splits, is_last=False, holds_watermark=self._watch.has_new_candidates)

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        if not isinstance(self._watch, FileWatch):
            return
        for position in positions:
            self._watch.reopen(position["path"], position["size"], position["modified_ms"])

    def snapshot(self) -> dict[str, Any]:
        return self._watch.snapshot() if self._watch is not None else {}


def _split(status: FileStatus) -> SourceSplit:
    position = {"path": status.path, "size": status.size, "modified_ms": status.modified_ms}
    return SourceSplit(position, status.size + OPENING_BYTES)


VANISHED_MAX = 100_000
"""Of so many files that are gone it is kept what was found: one that was out of sight for a while is not read again."""

_TAIL_BYTES = 1 << 16


class GrowthWatch:
    """Finds the lines that were added to files since the last look. Files have names of their own, and what stands in one stays.

    State: how many bytes were found, up to the end of a line, of each file that is there, and of the last VANISHED_MAX that are
    not; a snapshot has it.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._found: dict[str, int] = {}

    def look(self, found: Collection[FileStatus]) -> list[SourceSplit]:
        """`found` is all that is there."""
        gone = self._found.keys() - {status.path for status in found}
        kept = [path for path in self._found if path in gone][-VANISHED_MAX:]
        self._found = {path: self._found.get(path, 0) for path in (*kept, *(status.path for status in found))}
        splits = []
        for status in found:
            begin = self._found[status.path]
            end = self._line_end(status, begin)
            if end > begin:
                self._found[status.path] = end
                position = {
                    "path": status.path,
                    "size": end,
                    "modified_ms": status.modified_ms,
                    "begin": begin,
                }
                splits.append(SourceSplit(position, end - begin + OPENING_BYTES))
        return splits

    def _line_end(self, status: FileStatus, begin: int) -> int:
        """Where the last whole line ends; a line may be half written."""
        end = status.size
        if end <= begin:
            return begin
        try:
            with self._files.open_read(status.path) as stream:
                while end > begin:
                    first = max(begin, end - _TAIL_BYTES)
                    stream.seek(first)
                    place = stream.read(end - first).rfind(b"\n")
                    if place >= 0:
                        return first + place + 1
                    end = first
        except (OSError, SqlStreamError):
            if self._files.status(status.path) is not None:
                raise
            # It was removed since the look, as those of earlier jobs are.
        return begin

    def snapshot(self) -> dict[str, Any]:
        return {"found": self._found}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._found = dict(snapshot["found"])


# When a file of a watched directory is complete, and whether it changes after that.


_Form = tuple[int, int]
"""Size and modification time of a file: another form is another content."""


@dataclasses.dataclass
class _Candidate:
    """A file that is not yet found complete; `changes` counts the looks that found another form than the look before."""

    form: _Form
    changes: int = 0


@dataclasses.dataclass(frozen=True)
class Look:
    """What a look at the directory has found: files that are complete and new, paths of files that changed
    after they were complete, and of files that are written to all the time. A path is in the last two once at most."""

    complete: list[FileStatus]
    changed: list[str]
    growing: list[str]


class FileWatch:
    """Decides from what each look at a directory finds; pure, the clock and the files are the caller's.

    A file is complete when it has not changed for `interval_ms`: its modification time is that old, or two looks that far
    apart found the same size and modification time. It is complete once, whatever becomes of it.
    State: the form of every file that is there, and of the last VANISHED_MAX complete ones that are not; a snapshot has the
    complete ones.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._candidates: dict[str, _Candidate] = {}
        self._complete: dict[str, _Form] = {}
        self._vanished: dict[str, None] = {}
        self._reported: set[str] = set()
        self.has_new_candidates = False
        """Whether the last look has seen a file for the first time that may be complete at the next one."""

    def look(self, found: Collection[FileStatus], now_ms: int) -> Look:
        """`found` is all that is there; looks are at least `interval_ms` apart."""
        look = Look([], [], [])
        before, self._candidates, self.has_new_candidates = self._candidates, {}, False
        for status in found:
            form = (status.size, status.modified_ms)
            if status.path in self._complete:
                if form != self._complete[status.path]:
                    self._report_once(status.path, look.changed)
            elif self._is_settled(form, before.get(status.path), now_ms):
                self._keep(status.path, form)
                look.complete.append(status)
            else:
                self._wait(status.path, form, before.get(status.path), look.growing)
        self._forget_vanished({status.path for status in found})
        return look

    def reopen(self, path: str, size: int, modified_ms: int) -> None:
        """The file that was found complete in this form has changed or vanished before it was read: what is there at the next
        look is a new file."""
        if self._complete.get(path) == (size, modified_ms):
            del self._complete[path]
            self._reported.discard(path)

    def snapshot(self) -> dict[str, Any]:
        """The complete files, JSON-able. Those that are not complete are found again."""
        return {"complete": [[path, *form] for path, form in self._complete.items()]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._complete = {path: (size, modified_ms) for path, size, modified_ms in snapshot["complete"]}

    def _forget_vanished(self, present: set[str]) -> None:
        for path in [path for path in self._vanished if path in present or path not in self._complete]:
            del self._vanished[path]
        self._vanished |= dict.fromkeys(self._complete.keys() - present - self._vanished.keys())
        for path in list(self._vanished)[:-VANISHED_MAX]:
            del self._vanished[path], self._complete[path]
            self._reported.discard(path)

    def _keep(self, path: str, form: _Form) -> None:
        self._complete[path] = form
        self._reported.discard(path)

    def _is_settled(self, form: _Form, before: _Candidate | None, now_ms: int) -> bool:
        is_old = form[1] <= now_ms - self._interval_ms
        return is_old or (before is not None and before.form == form)

    def _wait(self, path: str, form: _Form, before: _Candidate | None, growing: list[str]) -> None:
        if before is None:
            self._candidates[path] = _Candidate(form)
            self.has_new_candidates = True
            return
        self._candidates[path] = _Candidate(form, before.changes + 1)
        if before.changes:
            self._report_once(path, growing)

    def _report_once(self, path: str, paths: list[str]) -> None:
        if path not in self._reported:
            self._reported.add(path)
            paths.append(path)
