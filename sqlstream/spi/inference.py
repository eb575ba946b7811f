"""What the planner asks of files that a statement names by their path alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlstream.catalog.objects import InferredTable


class FileInference(Protocol):
    """Reads as much of files as tells their columns. One object serves one statement: it lists the files of a path once.

    Errors are SqlStreamError without a position: UserError SS5002 when no file is there, SS5024 when no table can be inferred
    from a file, SS5025 when files do not make one table, SS5030 for a path outside of the allowed directories.
    """

    def format(self, path: str) -> str:
        """The format of the files at a path, by their suffix."""

    def table(self, options: Mapping[str, str]) -> InferredTable:
        """The table of the files at `path`, one of the options; `format` is another, and those of the format hold."""
