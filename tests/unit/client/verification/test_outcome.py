"""The text of what VERIFY has found."""

from __future__ import annotations

import msgspec

from sqlstream.client.verification.outcome import (
    ContributingTable,
    Difference,
    Reason,
    Verification,
    verification_text,
)

EQUAL = Verification("SELECT", True, "duckdb", 1200, 1200, 1.5, 0.25, 0, 0, 0, 0.0, (), ())
DIFFERENT = Verification(
    *("INSERT INTO t", False, "spark", 2, 1, 1.5, 0.25, 1, 0, 0, 0.0),
    differences=(
        Difference(
            {"k": "1"},
            ({"k": "1", "n": None},),
            (),
            (
                ContributingTable("clicks", ({"k": "1"},)),
                ContributingTable("users", (), not_traced="no column of the table follows from the row"),
                ContributingTable("empty"),
                ContributingTable("large", ({"k": "1"}, {"k": "1"}), is_complete=False),
            ),
        ),
    ),
    reasons=(Reason("late-rows", "3 rows were late and dropped; a batch has no late rows"),),
)


def test_equal_rows_are_one_line_with_the_counts() -> None:
    assert (
        verification_text(EQUAL)
        == "equal: 1,200 rows as a stream (1.50 s), 1,200 rows in batch on duckdb (0.25 s)"
    )


def test_rows_within_the_tolerance_are_named() -> None:
    near = msgspec.structs.replace(EQUAL, near_rows=1, tolerance=1e-9)
    assert verification_text(near).splitlines()[1] == "1 row differs in floats within the tolerance of 1e-09"


def test_a_difference_shows_the_key_both_rows_their_inputs_and_the_reason() -> None:
    assert verification_text(DIFFERENT).splitlines() == [
        "different: 2 rows as a stream (1.50 s), 1 row in batch on spark (0.25 s)",
        "1 row only in the stream, 0 rows only in the batch",
        "",
        "difference 1: k = 1",
        "+--------+---+--------+",
        "|        | k | n      |",
        "+--------+---+--------+",
        "| stream | 1 | <NULL> |",
        "+--------+---+--------+",
        'table "clicks": 1 row contributes',
        "+---+",
        "| k |",
        "+---+",
        "| 1 |",
        "+---+",
        'rows of table "users" are not traced: no column of the table follows from the row',
        'no row of table "empty" contributes',
        'table "large": the first 2 rows',
        "+---+",
        "| k |",
        "+---+",
        "| 1 |",
        "| 1 |",
        "+---+",
        "",
        "reason: 3 rows were late and dropped; a batch has no late rows",
    ]
