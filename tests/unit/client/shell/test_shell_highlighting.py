"""Colours of a text that is being typed."""

from __future__ import annotations

import pytest
from prompt_toolkit.document import Document

from sqlstream.client.shell.prompt import SqlLexer, styled


def classes(text: str) -> list[tuple[str, str]]:
    return [(style.removeprefix("class:sql."), part) for style, part in styled(text) if style]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT upper(a) FROM t", [("keyword", "SELECT"), ("function", "upper"), ("keyword", "FROM")]),
        ("SHOW `x` 'y' 1.5", [("keyword", "SHOW"), ("name", "`x`"), ("string", "'y'"), ("number", "1.5")]),
        ("a -- b", [("comment", " -- b")]),
        ("a 'open", [("string", "'open")]),
        ("a /* open", [("comment", "/* open")]),
        ('a "b', [("wrong", ' "')]),
    ],
)
def test_tokens_have_styles(text: str, expected: list[tuple[str, str]]) -> None:
    assert classes(text) == expected


@pytest.mark.parametrize("text", ["SELECT 'a\nb' --c\n ;", '"@{', "U&'\\00' x", "\\d t", "", "\n\n"])
def test_the_pieces_are_the_text(text: str) -> None:
    assert "".join(part for _, part in styled(text)) == text


def test_a_lexer_is_plain_until_it_is_loaded_and_never_shows_a_former_text() -> None:
    lexer = SqlLexer()
    assert lexer.lex_document(Document("SELECT"))(0) == [("", "SELECT")]
    assert lexer.lex_document(Document(""))(0) in ([], [("", "")])
    lexer.load()
    assert lexer.lex_document(Document("SELECT"))(0) == [("class:sql.keyword", "SELECT")]
    assert lexer.lex_document(Document("'a\nb'"))(1) == [("class:sql.string", "b'")]
