"""How far a reader is in one file."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlstream.elements import WATERMARK_MIN


@dataclasses.dataclass
class FileSplit:
    """A file of this subtask, of which `rows` rows were emitted. `size` and `modified_ms` are those of the file when it was
    found.

    `watermark_ms` is the file's own: the highest watermark of the emitted rows, at first that of the reader when it found
    the file. `least_ms` is what the first rows promise before they are emitted: none of the file's rows becomes late by it.
    """

    path: str
    size: int
    modified_ms: int
    rows: int = 0
    watermark_ms: int = WATERMARK_MIN
    least_ms: int = WATERMARK_MIN

    @property
    def progress_ms(self) -> int:
        """The watermark that the file allows its reader."""
        return max(self.watermark_ms, self.least_ms)

    def snapshot(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
