"""The widths of a table's columns, and the parts of texts that fit."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.client.rendering.table_layout import (
    can_be_cut,
    cut,
    fitted_widths,
    frame_columns,
    frame_line,
    table_line,
    wrapped,
)
from sqlstream.types import LogicalType


@pytest.mark.parametrize(
    ("wanted", "least", "columns", "widths"),
    [
        ([4, 40, 20], [4, 8, 8], None, [4, 40, 20]),
        ([4, 40, 20], [4, 8, 8], 74, [4, 40, 20]),
        ([4, 40, 20], [4, 8, 8], 73, [4, 39, 20]),
        ([4, 40, 20], [4, 8, 8], 50, [4, 18, 18]),
        # A column that is left over goes to the first that wants it.
        ([4, 40, 20], [4, 8, 8], 51, [4, 19, 18]),
        ([4, 40, 20], [4, 8, 8], 10, [4, 8, 8]),
        ([30, 12], [30, 8], 40, [30, 8]),
        ([1], [1], 5, [1]),
        ([], [], 80, []),
    ],
)
def test_the_widest_columns_are_narrowed_first(
    wanted: list[int], least: list[int], columns: int | None, widths: list[int]
) -> None:
    assert fitted_widths(wanted, least, columns) == widths


def test_a_frame_takes_three_characters_a_column_and_one() -> None:
    assert [frame_columns(n) for n in (1, 2, 5)] == [4, 7, 16]
    assert frame_line([1, 3]) == "+---+-----+"
    assert len(frame_line([1, 3])) == 4 + frame_columns(2)
    assert table_line(["a", "日"], [2, 3], [True, False]) == "|  a | 日  |"
    assert table_line(["long"], [2], [True]) == "| long |"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        *(
            ("abcd", 4, "abcd"),
            ("abcde", 4, "abc…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ),
        *(("e\u0301abc", 3, "e\u0301a…"), ("a\tb", 4, "a\\tb"), ("a\tbc", 4, "a\\t…"), ("ab", 1, "…")),
    ],
)
def test_a_text_that_is_too_wide_ends_with_an_ellipsis(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("one two", 3, ["one", "two"]),
        ("one two", 2, ["on", "e", "tw", "o"]),
        (" abc", 3, [" ab", "c"]),
        ("日本語", 4, ["日本", "語"]),
        ("a  b", 2, ["a", "b"]),
        ("", 3, [""]),
    ],
)
def test_a_text_is_broken_at_blanks_where_there_are_some(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


@pytest.mark.parametrize(
    ("type_", "can"),
    [
        *((sql.STRING, True), (sql.char(3), True), (sql.BYTES, True), (sql.array(sql.INT), True)),
        *((sql.INT, False), (sql.decimal(9, 2), False), (sql.timestamp(3), False), (sql.BOOLEAN, False)),
    ],
)
def test_numbers_and_times_are_shown_whole(type_: LogicalType, can: bool) -> None:
    assert can_be_cut(type_) == can
