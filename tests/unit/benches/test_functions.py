"""`main.py functions` measures every scalar function that is computed row by row."""

from __future__ import annotations

from benches.function_cases import CASES
from benches.functions import REASONS, figures

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
    assert REASONS.keys() <= CASES.keys()


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
