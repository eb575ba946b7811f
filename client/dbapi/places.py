"""Which Python expression each part of a statement stands for."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType

from sqlstream.errors import Span, excerpt
from sqlstream.terminal_text import shown

_OURS = __name__.rpartition(".")[0]


class Place:
    """Where the user's Python code has made a part of a statement.

    >>> Place.here() is None or Place.here().line > 0
    True
    """

    __slots__ = ("_code", "_instruction", "line")

    def __init__(self, code: CodeType, instruction: int, line: int) -> None:
        self._code = code
        self._instruction = instruction
        self.line = line

    @staticmethod
    def here() -> Place | None:
        """The call of the nearest frame that is none of this module's package."""
        frame = sys._getframe(1)
        while frame is not None:
            if not str(frame.f_globals.get("__name__", "")).startswith(_OURS):
                return Place(frame.f_code, frame.f_lasti, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return None

    @property
    def file(self) -> str:
        return self._code.co_filename

    def lines(self) -> list[str]:
        """What a user is shown: the file and line, and the expression underlined where its source is there."""
        lines = [f"in Python: {shown(os.path.basename(self.file))}, line {self.line}"]
        source = linecache.getlines(self.file)
        if not 0 < self.line <= len(source):
            return lines
        start, end = self._columns(source[self.line - 1])
        before = sum(map(len, source[: self.line - 1]))
        return lines + excerpt("".join(source), Span(before + start, before + end))

    def _columns(self, line: str) -> tuple[int, int]:
        """The part of its line that is the expression: all of it where the expression has several lines."""
        whole = len(line) - len(line.lstrip()), len(line.rstrip())
        positions = list(self._code.co_positions())[self._instruction // 2]
        first, last, start, end = positions
        if first != self.line or last != self.line or start is None or end is None:
            return whole
        # Python counts bytes.
        encoded = line.encode()
        return len(encoded[:start].decode(errors="replace")), len(encoded[:end].decode(errors="replace"))


class PlacedText(str):
    """A statement, and which part of it comes from where in Python."""

    marks: tuple[tuple[int, int, Place], ...] = ()

    def place_of(self, span: Span) -> Place | None:
        """Where the innermost part that covers a span comes from."""
        covering = [
            (end - start, place)
            for start, end, place in self.marks
            if start <= span.start and span.end <= end
        ]
        return min(covering, key=lambda found: found[0])[1] if covering else None
