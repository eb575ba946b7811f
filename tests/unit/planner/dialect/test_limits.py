"""Texts that end too early and numbers that no type holds are refused at their place."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script

LONG = "9" * 5_000


@pytest.mark.parametrize("text", ["SELECT 1 FROM TABLE(;", "SELECT 1 FROM TABLE(", "SELECT * FROM t /*+"])
def test_a_statement_that_ends_within_a_table_is_refused_at_its_end(text: str) -> None:
    with pytest.raises(UserError, match="unexpected end of statement") as caught:
        parse_script(text)
    assert caught.value.span is not None
    assert caught.value.span.end <= len(text)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {LONG}",
        f"SELECT -{LONG}",
        f"SELECT 1.{LONG}",
        f"SELECT a FROM t ORDER BY {LONG}",
        f"SELECT * FROM t LIMIT {LONG}",
        "SELECT * FROM t LIMIT 9223372036854775808",
        "SELECT * FROM t LIMIT 1 OFFSET 99999999999999999999",
        f"SELECT CAST(1 AS DECIMAL({LONG}))",
        f"SELECT INTERVAL '{LONG}' DAY",
        f"SELECT INTERVAL '{LONG}-1' YEAR TO MONTH",
    ],
)
def test_a_number_that_nothing_holds_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(UserError, match="too l") as caught:
        parse_script(text)
    assert caught.value.code in ("SS1001", "SS1003")
    assert caught.value.span is not None


def test_the_largest_limit_is_taken() -> None:
    assert len(parse_script("SELECT * FROM t LIMIT 9223372036854775807 OFFSET 9223372036854775807")) == 1
