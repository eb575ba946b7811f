"""Rows that a source could not decode: kept as JSON lines where nothing reads them by accident, or the first ones shown."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from runtime.connectors.file_options import FileOptions
from runtime.connectors.file_paths import is_in_store, local_path, rejected_rows_path
from runtime.host.files import file_error
from sqlstream.terminal_text import shortened, shown

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec
    from sqlstream.spi.connector import ConnectorContext
    from sqlstream.spi.format import Rejected

SHOWN_ROWS_MAX = 3
"""Rows that each subtask shows when none are kept."""

_SHOWN_CHARACTERS_MAX = 120


def rejected_rows_directory(spec: SourceSpec) -> str | None:
    """Where the undecodable rows of a table are kept; None when they are counted and the first ones shown."""
    options = FileOptions.of(spec.options)
    if is_in_store(options.path):
        return None
    given = options.rejected_rows_path
    if given is None:
        return rejected_rows_path(local_path(options.path))
    return local_path(given) if given else None


def rejected_rows_name(job_id: str, writer: str = "*") -> str:
    """The file of one writer of a job, or the pattern of all of them."""
    return f"rejected-{job_id}-{writer}.json"


class RejectedRows:
    """With a directory, writes one file per subtask: one object per row with `file`, `line`, `reason` and `text`; no file
    when nothing is rejected. Without one, prints the first rows as errors.

    State: the open file, how many rows were shown. Rows are on disk when `keep` returns, so that a failing job keeps them too.
    """

    def __init__(self, directory: str | None, context: ConnectorContext) -> None:
        writer = f"{context.vertex_id}-{context.subtask}-{context.attempt}"
        self._path = os.path.join(directory, rejected_rows_name(context.job_id, writer)) if directory else ""
        self._context = context
        self._stream: BinaryIO | None = None
        self._shown = 0

    def keep(self, path: str, rows: list[Rejected]) -> None:
        if not rows:
            return
        self._context.count("numRecordsRejected", len(rows))
        if not self._path:
            self._show(path, rows[: SHOWN_ROWS_MAX - self._shown])
            return
        lines: list[dict[str, Any]] = [
            {"file": path, "line": row.line, "reason": row.reason, "text": row.text} for row in rows
        ]
        if self._stream is None:
            self._stream = self._context.files.open_write(self._path)
        try:
            self._stream.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            self._stream.flush()
        except OSError as error:
            raise file_error("write", self._path, error) from error

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
