"""The widths of a printed table's columns, and the part of a text that a cell shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlstream import types as sql
from sqlstream.terminal_text import character_width, display_width, shown
from sqlstream.types import LogicalType, TypeRoot

CELL_COLUMNS_MIN = 8
"""No column is narrowed below this width to make room for others."""

NUMBER_ROOTS = frozenset({
    TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
})  # fmt: skip
_LONG_ROOTS = frozenset({
    *sql.STRING_ROOTS, *sql.BINARY_ROOTS, TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.VARIANT,
    TypeRoot.BITMAP,
})  # fmt: skip


def can_be_cut(type_: LogicalType) -> bool:
    """Whether values may be shown in part: texts, bytes and nested values may, numbers and times may not."""
    return type_.root in _LONG_ROOTS


def fitted_widths(wanted: Sequence[int], least: Sequence[int], columns: int | None) -> list[int]:
    """The widths of columns that share a line of `columns` (None: no limit); the widest are narrowed first, down to `least`.

    >>> fitted_widths([4, 40, 20], [4, 8, 8], 50)
    [4, 18, 18]
    """
    room = sum(wanted) if columns is None else columns - frame_columns(len(wanted))
    low, high = 0, max(wanted, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_limited(wanted, least, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    widths = _limited(wanted, least, low)
    for i, width in enumerate(widths):
        widths[i] = min(wanted[i], width + max(0, room - sum(widths)))
    return widths


def _limited(wanted: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    return [max(low, min(width, limit)) for width, low in zip(wanted, least, strict=True)]


def frame_columns(count: int) -> int:
    """The characters per line that the frame of a table with `count` columns takes."""
    return 3 * count + 1


def cut(text: str, width: int) -> str:
    """The text as `shown`, cut to `width` columns with an ellipsis."""
    text = shown(text)
    if display_width(text) <= width:
        return text
    kept = _characters_within(text, width - 1)
    return text[:kept] + "…"


def wrapped(text: str, width: int) -> list[str]:
    """The text as `shown` in lines of at most `width` columns, broken at blanks where there are some.

    >>> wrapped("one line or more", 8)
    ['one line', 'or more']
    """
    text = shown(text)
    lines = []
    while display_width(text) > width:
        kept = max(1, _characters_within(text, width))
        blank = text.rfind(" ", 0, kept + 1)
        end = blank if blank > 0 else kept
        lines.append(text[:end].rstrip(" "))
        text = text[end:].lstrip(" ")
    return [*lines, text]


def _characters_within(text: str, columns: int) -> int:
    """How many characters fit; accents stay with their letter."""
    kept = 0
    for character in text:
        columns -= character_width(character)
        if columns < 0:
            break
        kept += 1
    return kept


def table_line(cells: Iterable[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = " " * max(0, width - display_width(cell))
        padded.append(space + cell if is_right else cell + space)
    return "| " + " | ".join(padded) + " |"


def frame_line(widths: Sequence[int]) -> str:
    return "+" + "+".join("-" * (width + 2) for width in widths) + "+"
