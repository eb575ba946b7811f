"""The line of a script that contains a span, with a mark below the span."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count
from sqlstream.secrets import MASK, secret_ranges
from sqlstream.terminal_text import display_width, shown

EXCERPT_COLUMNS = 160
"""A longer line is shown in part: the marked text and the text around it."""

_BEFORE_COLUMNS = 60
_NEAR = 10_000
"""Characters on each side of the mark that may be shown: a secret among them is shown as a short mask."""

_CUT = "…"


class Span(msgspec.Struct, frozen=True):
    """A half-open range of character offsets in the script that the user submitted."""

    start: Count
    end: Count

    def shift(self, offset: int) -> Span:
        return Span(self.start + offset, self.end + offset)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character offset.

    >>> line_and_column("SELECT\\n  x", 9)
    (2, 3)
    """
    offset = min(max(offset, 0), len(text))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def excerpt(text: str, span: Span) -> list[str]:
    """Two lines: the line of the script in which the span begins, and a mark below the part that the span covers.

    Control characters become escapes, values of secrets are masked, and a line wider than EXCERPT_COLUMNS is cut to the part
    around the mark, with an ellipsis at each cut. Tabs stay tabs.

    >>> print("\\n".join(excerpt("SELECT usr_id FROM t", Span(7, 13))))
      1 | SELECT usr_id FROM t
        |        ^^^^^^
    """
    number, column = line_and_column(text, span.start)
    start = min(max(span.start, 0), len(text)) - column + 1
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end].removesuffix("\r")
    first = min(column - 1, len(line))
    after = min(max(first + 1, first + span.end - span.start), max(len(line), first + 1))
    # Of a line of megabytes only what is near the mark is looked at.
    near = max(0, first - _NEAR)
    is_cut = first + _NEAR < len(line)
    start, first, after = start + near, first - near, min(after - near, first + _NEAR)
    line = line[near : near + first + _NEAR]
    cells = _cells(line, _secrets_in(text, start, len(line)))
    begin, stop = _shown_part([display_width(cell) for cell in cells], first, after)
    before = "".join(cells[begin:first])
    marked = "".join(cells[first : min(after, stop)])
    rest = "".join(cells[min(after, stop) : stop])
    opening, closing = _CUT if begin or near else "", _CUT if is_cut or stop < len(cells) else ""
    # A tab before the mark is kept as a tab, so that the mark stands under its text in any terminal.
    pad = "".join("\t" if c == "\t" else " " * display_width(c) for c in opening + before)
    gutter = str(number)
    return [
        f"  {gutter} | {opening}{before}{marked}{rest}{closing}",
        f"  {' ' * len(gutter)} | {pad}{'^' * max(1, display_width(marked))}",
    ]


def _secrets_in(text: str, start: int, length: int) -> list[tuple[int, int]]:
    """The parts of a line, which begins at `start`, that are values of secrets."""
    parts = [(max(a - start, 0), min(b - start, length)) for a, b in secret_ranges(text)]
    return [(a, b) for a, b in parts if a < b]


def _cells(line: str, secrets: list[tuple[int, int]]) -> list[str]:
    """The text shown for each character of a line; a secret's mask replaces its first character."""
    cells = [c if c == "\t" else shown(c) for c in line]
    for first, after in secrets:
        cells[first:after] = [MASK, *[""] * (after - first - 1)]
    return cells


def _shown_part(widths: list[int], first: int, after: int) -> tuple[int, int]:
    """From which to which character a line with such widths is shown, when first:after are marked."""
    if sum(widths) <= EXCERPT_COLUMNS:
        return 0, len(widths)
    begin = first
    columns = 0
    while begin and columns + widths[begin - 1] <= _BEFORE_COLUMNS:
        begin -= 1
        columns += widths[begin]
    stop = first
    while stop < len(widths) and columns + widths[stop] <= EXCERPT_COLUMNS:
        columns += widths[stop]
        stop += 1
    # When the line ends soon after the mark, there is room for more text before it.
    while stop == len(widths) and begin and columns + widths[begin - 1] <= EXCERPT_COLUMNS:
        begin -= 1
        columns += widths[begin]
    return begin, stop
