"""Rows that a source could not decode: kept as JSON lines where nothing reads them by accident, or the first ones shown."""

from __future__ import annotations

import contextlib
import datetime
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import (
    is_in_store,
    local_path,
    rejected_rows_path,
    table_path,
)
from sqlstream.runtime.host.files import file_error, list_if_there
from sqlstream.terminal_text import shortened, shown

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec
    from sqlstream.spi.connector import ConnectorContext
    from sqlstream.spi.format import Rejected

SHOWN_ROWS_MAX = 3
"""Rows that each subtask shows when none are kept."""

_SHOWN_CHARACTERS_MAX = 120
_PREFIX = "rejected-"


def rejected_rows_directory(spec: SourceSpec) -> str | None:
    """Where the undecodable rows of a table are kept; None when they are counted and the first ones shown."""
    options = FileOptions.of(spec.options)
    return None if options.reads_rejected_rows else kept_directory(options)


def kept_directory(options: FileOptions) -> str | None:
    """Where a table with these options keeps rows, if it does."""
    if is_in_store(options.path):
        return None
    given = options.rejected_rows_path
    if given is None:
        return rejected_rows_path(local_path(options.path))
    return local_path(given) if given else None


def read_path(options: FileOptions) -> str:
    """The path of the files that are read: those of the table, or those that keep its rejected rows. UserError SS4002 when it
    keeps none."""
    if not options.reads_rejected_rows:
        return table_path(options.path)
    directory = kept_directory(options)
    if directory is None:
        raise UserError(
            "SS4002",
            f'the table of "{options.path}" keeps no rejected rows',
            hint="name a directory of this machine in 'source.rejected-rows.path'",
        )
    return os.path.join(directory, rejected_rows_name("*"))


def rejected_rows_name(job_id: str, writer: str = "*") -> str:
    """The file of one writer of a job, or the pattern of all of them."""
    return f"{_PREFIX}{job_id}-{writer}.json"


class RejectedRows:
    """With a directory, writes one file per subtask: one object per row with `job`, `rejected_at`, `file`, `line`, `reason`
    and `text`; no file when nothing is rejected. Without one, prints the first rows as errors.

    A file that has half of `bytes_max` is followed by another, and the one before it is removed; with the first one, files that
    are older than `retention_ms` (0: none) are.
    State: the open file, how many rows were shown. Rows are on disk when `keep` returns, so that a failing job keeps them too.
    """

    def __init__(
        self,
        directory: str | None,
        context: ConnectorContext,
        bytes_max: int = 1 << 26,
        retention_ms: int = 0,
    ) -> None:
        self._directory = directory
        self._writer = f"{context.vertex_id}-{context.subtask}-{context.attempt}"
        self._context = context
        self._file_bytes_max = bytes_max // 2
        self._retention_ms = retention_ms
        self._stream: BinaryIO | None = None
        self._paths: list[str] = []
        self._number = 0
        self._bytes = 0
        self._shown = 0

    def keep(self, path: str, rows: list[Rejected]) -> None:
        if not rows:
            return
        self._context.count("numRecordsRejected", len(rows))
        if self._directory is None:
            self._show(path, rows[: SHOWN_ROWS_MAX - self._shown])
            return
        now_ms = self._context.now_ms()
        fixed = {"job": self._context.job_id, "rejected_at": _text_of(now_ms), "file": path}
        lines: list[dict[str, Any]] = [
            {**fixed, "line": row.line, "reason": row.reason, "text": row.text} for row in rows
        ]
        if self._stream is None or self._bytes >= self._file_bytes_max:
            self._begin_file(self._directory, now_ms)
        assert self._stream is not None
        try:
            written = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            self._bytes += len(written)
            self._stream.write(written)
            self._stream.flush()
        except OSError as error:
            raise file_error("write", self._paths[-1], error) from error

    def _begin_file(self, directory: str, now_ms: int) -> None:
        files = self._context.files
        if not self._paths and self._retention_ms:
            for status in list_if_there(directory, files):
                is_kept_row = os.path.basename(status.path).startswith(_PREFIX)
                if is_kept_row and status.modified_ms < now_ms - self._retention_ms:
                    files.remove(status.path)
        self.close()
        suffix = f".{self._number}" if self._number else ""
        self._paths.append(
            os.path.join(directory, rejected_rows_name(self._context.job_id, self._writer + suffix))
        )
        self._stream = files.open_write(self._paths[-1])
        self._number, self._bytes = self._number + 1, 0
        while len(self._paths) > 2:
            files.remove(self._paths.pop(0))

    def _show(self, path: str, rows: list[Rejected]) -> None:
        if rows:
            self._shown += len(rows)
            lines = [
                f"rejected: {path}, line {r.line}: {r.reason}: {shortened(r.text, _SHOWN_CHARACTERS_MAX)}"
                for r in rows
            ]
            self._context.print_lines([shown(line) for line in lines], True)

    def close(self) -> None:
        if self._stream is not None:
            # Only rows that `keep` failed to write are left, and `keep` has raised that error.
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None


def _text_of(now_ms: int) -> str:
    """A time as a TIMESTAMP_LTZ is written in JSON."""
    at = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{now_ms % 1000:03}Z"
