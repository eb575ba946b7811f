"""Tokens: decoding, exact positions, and lexical errors."""

from __future__ import annotations

import pytest
from sqlglot import TokenType

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.tokens import span, tokenize


def texts(sql: str) -> list[str]:
    return [t.text for t in tokenize(sql)]


def test_quotes_are_decoded() -> None:
    assert texts("'it''s' `a``b` U&'\\20AC \\\\' X'0aFF'") == ["it's", "a`b", "€ \\", "0aFF"]


def test_a_surrogate_pair_is_one_character() -> None:
    assert texts("U&'\\D83D\\DE00'") == ["😀"]


def test_comments_are_no_tokens_but_hints_are() -> None:
    assert texts("a -- b ; '\n/* c ` */ d /*+ e */") == ["a", "d", "/*+", "e", "*/"]


@pytest.mark.parametrize("number", ["1", "1.5", ".5", "1.", "1e3", "1.5E-3"])
def test_numbers_are_one_token(number: str) -> None:
    (token,) = tokenize(number)
    assert (token.token_type, token.text) == (TokenType.NUMBER, number)


def test_a_number_ends_with_its_exponent() -> None:
    assert texts("1e8+1") == ["1e8", "+", "1"]
    assert texts("1.5E-3-.5e1+2e+2-1e2*x") == ["1.5E-3", "-", ".5e1", "+", "2e+2", "-", "1e2", "*", "x"]


def test_operators_of_two_characters_are_one_token() -> None:
    assert texts("a<>b!=c<=d>=e||f=>g") == [
        "a",
        "<>",
        "b",
        "!=",
        "c",
        "<=",
        "d",
        ">=",
        "e",
        "||",
        "f",
        "=>",
        "g",
    ]


def test_positions_count_characters_from_the_offset() -> None:
    assert [span(t) for t in tokenize("é 'x'", offset=10)] == [Span(10, 11), Span(12, 15)]


def test_tokens_before_a_bad_character_are_still_delivered() -> None:
    tokens = tokenize('a "')
    assert next(tokens).text == "a"
    with pytest.raises(UserError, match="unexpected character"):
        next(tokens)


def test_a_closing_comment_mark_without_opening_is_refused() -> None:
    with pytest.raises(UserError, match=r'unexpected "\*/"'):
        texts("a */ b")
