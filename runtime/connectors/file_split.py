"""How far a reader is in one file."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlstream.elements import WATERMARK_MIN


@dataclasses.dataclass
class FileSplit:
    """A file of this subtask. `rows` counts the emitted rows; `is_done`: the file has no more.

    `watermark_ms` is the file's own: the highest watermark of the emitted rows, at first that of the reader when it found
    the file. `least_ms` is what the first rows promise before they are emitted: none of the file's rows becomes late by it.
    `size` and `modified_ms` are those of a file in a watched directory when it was found complete, -1 elsewhere.
    """

    path: str
    rows: int = 0
    is_done: bool = False
    watermark_ms: int = WATERMARK_MIN
    least_ms: int = WATERMARK_MIN
    size: int = -1
    modified_ms: int = -1

    @property
    def progress_ms(self) -> int:
        """The watermark that the file allows its reader."""
        return max(self.watermark_ms, self.least_ms)

    def snapshot(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
