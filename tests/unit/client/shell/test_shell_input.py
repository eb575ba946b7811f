"""What a user types → statements and commands."""

from __future__ import annotations

import pytest

from sqlstream.client.shell.input_text import Input, is_complete, split_input
from sqlstream.errors import Span, UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("  \n ", True),
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT 1\\G", True),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 -- not yet;", False),
        ('SELECT "a";', True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT 1; SELECT 2;", True),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1;", False),
        ("EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END;", True),
        ("help", True),
        ("HELP SELECT", True),
        ("exit", True),
        ("\\d orders", True),
        ("source '/tmp/a.sql'", True),
        ("help_me", False),
        ("SELECT help", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, expected: bool) -> None:
    assert is_complete(text) is expected


def split(text: str) -> list[tuple[str, str]]:
    def kind(i: Input) -> str:
        return (
            "command"
            if i.is_command
            else "vertical"
            if i.is_vertical
            else "sql"
            if i.is_terminated
            else "open"
        )

    return [(i.text, kind(i)) for i in split_input(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1; SELECT 2", [("SELECT 1", "sql"), ("SELECT 2", "open")]),
        ("SELECT 1\\G SELECT 2\\G; SELECT 3;", [("SELECT 1", "vertical"), ("SELECT 2", "vertical"), ("SELECT 3", "sql")]),
        ("HELP; SELECT 1;", [("HELP", "command"), ("SELECT 1", "sql")]),
        ("\\d a;\nSELECT 1;\n\\timing on\n", [("\\d a", "command"), ("SELECT 1", "sql"), ("\\timing on", "command")]),
        ("SELECT '\\G';", [("SELECT '\\G'", "sql")]),
        ("-- HELP\nSELECT 1;", [("SELECT 1", "sql")]),
        ("SOURCE 'a;b.sql';", [("SOURCE 'a;b.sql'", "command")]),
        (";;", []),
        ("SELECT 1 -- a;b\n;SELECT 2\\G", [("SELECT 1", "sql"), ("SELECT 2", "vertical")]),
    ],
)  # fmt: skip
def test_a_text_is_split_into_statements_and_commands(text: str, expected: list[tuple[str, str]]) -> None:
    assert split(text) == expected


def test_a_span_is_the_place_in_the_whole_text() -> None:
    text = "SELECT 1; \n SELECT  'é' ;"
    spans = [i.span for i in split_input(text)]
    assert [text[s.start : s.end] for s in spans] == ["SELECT 1", "SELECT  'é'"]


def test_statements_before_text_that_is_no_sql_are_found() -> None:
    found = split_input('SELECT 1; SELECT "x";')
    assert next(found).text == "SELECT 1"
    with pytest.raises(UserError) as raised:
        next(found)
    assert raised.value.span == Span(17, 20)
