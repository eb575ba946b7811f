"""Literals in the place of question marks, and many rows in few statements."""

from __future__ import annotations

import pytest

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.parameters import (
    INSERT_CHARACTERS_MAX,
    ROWS_PER_INSERT,
    bulk_inserts,
    with_parameters,
)


def test_question_marks_in_texts_names_and_comments_are_no_parameters() -> None:
    statement = "SELECT '?', `?`, a -- ?\nFROM t /* ? */ WHERE b = ? AND c LIKE '%?' AND d=?"
    expected = "SELECT '?', `?`, a -- ?\nFROM t /* ? */ WHERE b = 'x?' AND c LIKE '%?' AND d=(-1)"
    assert with_parameters(statement, ["x?", -1]) == expected


def test_a_statement_without_parameters_is_sent_as_it_is() -> None:
    assert with_parameters("SELECT 'open", None) == "SELECT 'open"
    assert with_parameters("SELECT 1", []) == "SELECT 1"


@pytest.mark.parametrize("parameters", [[], [1], [1, 2, 3], "ab", {"a": 1, "b": 2}, 5])
def test_a_wrong_number_or_kind_of_parameters_is_refused(parameters: object) -> None:
    with pytest.raises(ProgrammingError, match=r"parameters (were given|are a sequence)"):
        with_parameters("SELECT ?, ?", parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "start", "row"),
    [
        ("INSERT INTO t VALUES (?, f(?, 'x)'))", "INSERT INTO t VALUES ", "(1, f(2, 'x)'))"),
        ("insert into c.d.t (a, b) values (?, ?);", "insert into c.d.t (a, b) values ", "(1, 2)"),
    ],
)
def test_rows_of_an_insert_are_joined(statement: str, start: str, row: str) -> None:
    found = bulk_inserts(statement, [(1, 2)] * (ROWS_PER_INSERT + 1))
    assert found is not None
    assert list(found) == [start + ",\n".join([row] * ROWS_PER_INSERT), start + row]


def test_an_insert_is_not_longer_than_its_limit() -> None:
    rows = [["x" * (INSERT_CHARACTERS_MAX // 2 - 100)]] * 5
    found = bulk_inserts("INSERT INTO t VALUES (?)", rows)
    assert found is not None
    lengths = [len(text) for text in found]
    assert len(lengths) == 3
    assert max(lengths) <= INSERT_CHARACTERS_MAX + 100


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT ? FROM (VALUES (1)) AS v(x)",
        "INSERT INTO t VALUES (?), (?)",
        "INSERT INTO t VALUES ?",
        "SELECT * FROM (VALUES (?)) AS v(x)",
        "CREATE VIEW v AS SELECT ?",
    ],
)
def test_other_statements_are_not_joined(statement: str) -> None:
    assert bulk_inserts(statement, [[1]]) is None
