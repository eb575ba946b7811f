"""Java's date patterns in DuckDB's words."""

from __future__ import annotations

import pytest

from planner.lower.duckdb.date_patterns import pattern_regex, strftime_format
from sqlstream.errors import UserError


def test_quoted_text_and_percent_signs_stand_for_themselves() -> None:
    assert strftime_format("yyyy-MM-dd'T'HH:mm:ss.SSS''%") == "%Y-%m-%dT%H:%M:%S.%g'%%"
    assert pattern_regex("dd.MM'?'") == r"[0-9]{2}\.[0-9]{2}\?"


def test_letters_without_a_counterpart_are_refused() -> None:
    with pytest.raises(UserError, match='"yy" in the date pattern "yy/MM"'):
        strftime_format("yy/MM")
