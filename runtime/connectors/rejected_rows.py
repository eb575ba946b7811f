"""Rows and messages that a source could not decode: kept as JSON lines where nothing reads them by accident, or the first ones
shown."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from sqlstream.runtime.connectors.files.file_paths import local_path
from sqlstream.runtime.host.files import file_error, list_if_there
from sqlstream.spi.connector import REJECTED_ROWS_PATH, OptionType
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.terminal_text import shortened, shown

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec
    from sqlstream.spi.connector import ConnectorContext
    from sqlstream.spi.files import FileStatus
    from sqlstream.spi.format import Rejected

SHOWN_ROWS_MAX = 3
"""Rows that each subtask shows when none are kept."""

_SHOWN_CHARACTERS_MAX = 120
_PREFIX = "rejected-"


def bytes_max_option() -> Any:
    return option(
        "source.rejected-rows.max-size",
        OptionType.MEMORY_SIZE,
        "How much of the rejected rows each subtask keeps: of more, the earlier half goes.",
        "64 mb",
        minimum=1024,
    )


def retention_option() -> Any:
    return option(
        "source.rejected-rows.retention",
        OptionType.DURATION,
        "Remove the rejected rows of earlier jobs, when another is rejected, if they are older; 0 keeps them.",
        "30 d",
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class RejectedMessagesOptions:
    """Options of a table of messages."""

    rejected_rows_path: str | None = option(
        REJECTED_ROWS_PATH,
        OptionType.STRING,
        "Directory for messages that could not be decoded and are passed over; without it the first ones are shown.",
    )
    rejected_rows_bytes_max: int = bytes_max_option()
    rejected_rows_retention_ms: int = retention_option()

    @property
    def rejected_rows_directory(self) -> str | None:
        """Where undecodable messages are kept, if they are."""
        return local_path(self.rejected_rows_path) if self.rejected_rows_path else None


REJECTED_MESSAGES_OPTIONS = descriptors_of(RejectedMessagesOptions)


class KeepsRejectedMessages:
    """The part of a connector of messages: they are kept where the table says so, and nowhere else."""

    def without_rejected_files(self, spec: SourceSpec) -> SourceSpec:
        return spec

    def rejected_rows_directory(self, spec: SourceSpec) -> str | None:
        return parse_options(RejectedMessagesOptions, spec.options).rejected_rows_directory


def rejected_rows_name(job_id: str, writer: str = "*") -> str:
    """The file of one writer of a job, or the pattern of all of them."""
    return f"{_PREFIX}{job_id}-{writer}.json"


class Origin(NamedTuple):
    """Where rows come from: `columns` names it as `t$errors` has it, `number` is the column of their numbers there, which
    grow, and `said` is for people."""

    columns: dict[str, Any]
    number: str
    said: str


class RejectedRows:
    """With a directory, writes one file per subtask: one object per row with `job`, `rejected_at`, its origin, number, `reason`
    and what stood there; no file when nothing is rejected. Without one, prints the first rows as errors.

    A file that has half of `bytes_max` is followed by another, and those before that one are removed, also of earlier
    attempts; with the first one, files that are older than `retention_ms` (0: none) are. Rows that an earlier attempt of the
    job has kept are not kept again.
    State: the open file, how many rows were shown, the last number that was kept of each origin before. Rows are on disk when
    `keep` returns, so that a failing job keeps them too.
    """

    def __init__(
        self,
        directory: str | None,
        context: ConnectorContext,
        bytes_max: int = 1 << 26,
        retention_ms: int = 0,
    ) -> None:
        self._directory = directory
        # No file has the name of an earlier one, whatever attempt of whichever server wrote it: who reads rows as they come
        # knows by the name how far it has read.
        self._writer = f"{context.vertex_id}-{context.subtask}-{context.now_ms()}"
        self._context = context
        self._file_bytes_max = bytes_max // 2
        self._retention_ms = retention_ms
        self._stream: BinaryIO | None = None
        self._is_begun, self._path = False, ""
        self._number = 0
        self._bytes = 0
        self._shown = 0
        self._kept: dict[tuple[Any, ...], int] | None = None

    @staticmethod
    def of_messages(
        options: Mapping[str, str], context: ConnectorContext, *, keeps: bool = True
    ) -> RejectedRows:
        """As the options of a table of messages say; without `keeps` the first ones are shown."""
        given = parse_options(RejectedMessagesOptions, options)
        return RejectedRows(
            given.rejected_rows_directory if keeps else None,
            context,
            given.rejected_rows_bytes_max,
            given.rejected_rows_retention_ms,
        )

    def keep(
        self, origin: Origin, rows: Sequence[Rejected], contents: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Count rows, whose `line` is their number, and keep or show them. `contents`: what is kept in place of their texts."""
        if not rows:
            return
        self._context.count("numRecordsRejected", len(rows))
        if self._directory is None:
            self._show(origin, rows[: SHOWN_ROWS_MAX - self._shown])
            return
        if self._kept is None:
            self._kept = self._kept_before(self._directory, origin)
        now_ms = self._context.now_ms()
        fixed = {"job": self._context.job_id, "rejected_at": time_text(now_ms), **origin.columns}
        key = tuple(origin.columns.values())
        known = self._kept.get(key, -1)
        given = [{"text": row.text} for row in rows] if contents is None else contents
        lines = [
            {**fixed, origin.number: row.line, "reason": row.reason, **content}
            for row, content in zip(rows, given, strict=True)
            if row.line > known
        ]
        if not lines:
            return
        if self._stream is None or self._bytes >= self._file_bytes_max:
            self._begin_file(self._directory, now_ms)
        assert self._stream is not None
        try:
            written = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            self._bytes += len(written)
            self._stream.write(written)
            self._stream.flush()
        except OSError as error:
            raise file_error("write", self._path, error) from error

    def _begin_file(self, directory: str, now_ms: int) -> None:
        files = self._context.files
        self.close()
        there = {
            os.path.basename(status.path): status
            for status in list_if_there(directory, files)
            if os.path.basename(status.path).startswith(_PREFIX)
        }
        if not self._is_begun and self._retention_ms:
            for name, status in list(there.items()):
                if status.modified_ms < now_ms - self._retention_ms:
                    files.remove(there.pop(name).path)
        self._remove_earlier(list(there.values()))
        path = self._next_path(directory)
        while files.status(path) is not None:
            path = self._next_path(directory)
        self._is_begun, self._path = True, path
        self._stream = files.open_write(path)
        self._bytes = 0

    def _remove_earlier(self, there: list[FileStatus]) -> None:
        """Of the files of this subtask, by whichever attempt, the last one is kept, and others that half of the bytes hold."""
        name = f"{_PREFIX}{self._context.job_id}-{self._context.vertex_id}-{self._context.subtask}-"
        pattern = re.compile(rf"{re.escape(name)}\d+(\.\d+)?\.json")
        own = [status for status in there if pattern.fullmatch(os.path.basename(status.path))]
        size = 0
        for number, status in enumerate(sorted(own, key=_place_of, reverse=True)):
            size += status.size
            if number and size > self._file_bytes_max:
                self._context.files.remove(status.path)

    def _next_path(self, directory: str) -> str:
        suffix = f".{self._number}" if self._number else ""
        self._number += 1
        return os.path.join(directory, rejected_rows_name(self._context.job_id, self._writer + suffix))

    def _kept_before(self, directory: str, origin: Origin) -> dict[tuple[Any, ...], int]:
        """What other attempts have kept of the source, by whichever subtask: a job that goes on meets it again."""
        files, kept = self._context.files, dict[tuple[Any, ...], int]()
        mine = f"{_PREFIX}{self._context.job_id}-{self._context.vertex_id}-"
        for status in list_if_there(directory, files):
            if not os.path.basename(status.path).startswith(mine):
                continue
            with files.open_read(status.path) as stream:
                for line in stream.read().splitlines():
                    # A process that was killed may have left half of a line.
                    with contextlib.suppress(msgspec.MsgspecError, KeyError, TypeError, AttributeError):
                        row = msgspec.json.decode(line)
                        key = tuple(row[name] for name in origin.columns)
                        kept[key] = max(kept.get(key, -1), int(row[origin.number]))
        return kept

    def _show(self, origin: Origin, rows: Sequence[Rejected]) -> None:
        if rows:
            self._shown += len(rows)
            lines = [
                f"rejected: {origin.said}, {origin.number} {r.line}: {r.reason}: {shortened(r.text, _SHOWN_CHARACTERS_MAX)}"
                for r in rows
            ]
            self._context.print_lines([shown(line) for line in lines], True)

    def close(self) -> None:
        if self._stream is not None:
            # Only rows that `keep` failed to write are left, and `keep` has raised that error.
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None


def _place_of(status: FileStatus) -> tuple[int, int, int]:
    """The order in which files of a subtask were written: by time, that of their writer, and number."""
    opened, _, number = os.path.basename(status.path).removesuffix(".json").rpartition("-")[2].partition(".")
    return status.modified_ms, int(opened), int(number or 0)


def time_text(now_ms: int) -> str:
    """A time as a TIMESTAMP_LTZ is written in JSON."""
    at = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{now_ms % 1000:03}Z"
