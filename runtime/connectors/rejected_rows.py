"""Rows that a source could not decode, kept as JSON lines where nothing reads them by accident."""

from __future__ import annotations

import contextlib
import os
from typing import Any, BinaryIO

import msgspec

from runtime.host.files import file_error
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.format import Rejected


class RejectedRows:
    """One file a subtask: an object a row with `file`, `line`, `reason` and `text`; none when nothing is rejected.

    State: the open file. Rows are on disk when `keep` returns, so that a failing job keeps them too.
    """

    def __init__(self, directory: str, context: ConnectorContext) -> None:
        name = f"rejected-{context.job_id}-{context.vertex_id}-{context.subtask}-{context.attempt}.json"
        self._path = os.path.join(directory, name)
        self._context = context
        self._stream: BinaryIO | None = None

    def keep(self, path: str, rows: list[Rejected]) -> None:
        if not rows:
            return
        self._context.count("numRecordsRejected", len(rows))
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

    def close(self) -> None:
        if self._stream is not None:
            # What is left to write at this point is what `keep` has failed to write, and has said so.
            with contextlib.suppress(OSError):
                self._stream.close()
            self._stream = None
