"""`main.py functions` measures every scalar function that is computed row by row."""

from __future__ import annotations

from benches.function_cases import CASES, USER_CASES
from benches.functions import REASONS, FunctionFigure, figures

from sqlstream.functions import SCALAR_FUNCTIONS

CONSTANT = {
    *(
        "PI",
        "E",
        "TYPEOF",
        "CURRENT_DATABASE",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "NOW",
        "LOCALTIMESTAMP",
    ),
    *("CURRENT_DATE", "CURRENT_TIME", "LOCALTIME", "PROCTIME", "CURRENT_WATERMARK"),
}
"""One value for all rows of a batch."""
PARTS = {
    "ORDERED_ARRAY",
    "ORDERED_LIST",
    "JSON_ITEMS",
    "JSON_MEMBER",
    "JSON_MEMBERS",
    "SINGLE_ROW",
    "KEY_BYTES",
}


def test_every_function_is_measured_or_constant() -> None:
    assert sorted(CASES) == sorted(SCALAR_FUNCTIONS.keys() - CONSTANT - PARTS)
    assert REASONS.keys() <= CASES.keys() | USER_CASES.keys()


def test_a_figure_is_the_rate_of_one_call() -> None:
    found = list(figures("", ["UPPER", "BITMAP_OR", "PARSE_JSON"], 0.001))
    assert [(f.family, f.function) for f in found] == [
        ("Text", "UPPER"),
        ("JSON", "PARSE_JSON"),
        ("Bitmaps", "BITMAP_OR"),
    ]
    assert all(f.rows_per_cpu_s > 0 for f in found)
    assert found[1].reason.startswith("the whole document, ")
    assert list(figures("JSON", ["UPPER"], 0.001)) == []


def test_functions_of_a_user_are_a_family_with_a_bar_of_their_own() -> None:
    found = list(figures("Python", [], 0.001))
    assert [f.function for f in found] == ["UDF_ARROW", "UDF_ROW", "UDF_TEXT", "UDF_ASYNC"]
    assert all(f.rows_per_cpu_s > 0 for f in found)
    assert not FunctionFigure("Python", "UDF_ARROW", "", 33_000_000, "").is_within_bar
    assert FunctionFigure("Python", "UDF_ROW", "", 1_000_000, "").is_within_bar
