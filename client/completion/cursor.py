"""A text and a cursor → the tokens of the statement around it, and the name that is being typed. Broken text is read too."""

from __future__ import annotations

import dataclasses

from sqlglot import Token, TokenType

from sqlstream.errors import UserError
from sqlstream.planner.dialect.tokens import is_word, tokenize, word

TEXT_CHARACTERS_MAX = 200_000
"""A longer text is not completed: reading it takes longer than a user waits."""

_QUALIFIERS_MAX = 4
"""Catalog, database and table before a column, or a column and fields of it."""

_BREAKS_MAX = 8
"""Characters without meaning that are passed over, such as a double quote."""


@dataclasses.dataclass(frozen=True)
class Cursor:
    """What stands around a cursor.

    `before` and `after` are the tokens of the statement without the name at the cursor: `qualifiers` (each followed by a dot)
    and `prefix`, the part before the cursor, which begins at `start` (at its quote, if it has one). `quote` is the open quote;
    `is_closed` says that its closing quote stands right after the cursor. `is_in_set`: the statement is one of a STATEMENT SET.
    """

    before: tuple[Token, ...]
    after: tuple[Token, ...]
    qualifiers: tuple[str, ...]
    prefix: str
    start: int
    quote: str = ""
    is_closed: bool = False
    is_in_set: bool = False


def read_cursor(text: str, position: int) -> Cursor | None:
    """The surroundings of `position`; None where nothing can be completed: in comments, after numbers and closed quotes."""
    position = min(max(position, 0), len(text))
    if len(text) > TEXT_CHARACTERS_MAX:
        return None
    tokens, opening = tolerant_tokens(text[:position])
    if opening is not None:
        quote = text[opening]
        if quote not in "'`":
            return None
        is_closed = text.startswith(quote, position)
        after = tolerant_tokens(text[position + is_closed :])[0]
        prefix = text[opening + 1 : position].replace(quote * 2, quote)
        return _cursor(tokens, after, prefix, opening, quote, is_closed)
    if _ends_in_comment(text, tokens, position):
        return None
    after = tolerant_tokens(text[position:])[0]
    if not tokens or tokens[-1].end + 1 < position:
        return _cursor(tokens, after, "", position)
    last = tokens[-1]
    if is_word(last):
        if after and after[0].start == 0 and is_word(after[0]):
            # The cursor is in the middle of a word, whose end is no token of its own.
            after = after[1:]
        return _cursor(tokens[:-1], after, last.text, last.start)
    is_literal = last.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER)
    return None if is_literal else _cursor(tokens, after, "", position)


def _cursor(
    tokens: list[Token], after: list[Token], prefix: str, start: int, quote: str = "", is_closed: bool = False
) -> Cursor:
    qualifiers: list[str] = []
    end = len(tokens)
    while (
        end >= 2
        and len(qualifiers) < _QUALIFIERS_MAX
        and tokens[end - 1].token_type is TokenType.DOT
        and is_name(tokens[end - 2])
    ):
        qualifiers.insert(0, tokens[end - 2].text)
        end -= 2
    before, is_in_set = _statement_tokens(tokens[:end])
    return Cursor(
        tuple(before),
        tuple(_until_semicolon(after)),
        tuple(qualifiers),
        prefix,
        start,
        quote,
        is_closed,
        is_in_set,
    )


def is_name(token: Token) -> bool:
    """Whether the token can be a part of a name: a word, or a text in backticks."""
    return token.token_type is TokenType.IDENTIFIER or is_word(token)


def tolerant_tokens(text: str) -> tuple[list[Token], int | None]:
    """The tokens, without the characters that are none, and where a literal or comment without an end begins."""
    tokens: list[Token] = []
    position = 0
    for _ in range(_BREAKS_MAX):
        try:
            for token in tokenize(text[position:], offset=position):
                tokens.append(token)
        except UserError as error:
            if error.span is None:
                raise
            if error.message.startswith("unterminated") and text[error.span.start] in "'`/":
                return tokens, error.span.start
            position = error.span.end
        else:
            break
    return tokens, None


def _ends_in_comment(text: str, tokens: list[Token], position: int) -> bool:
    gap = text[tokens[-1].end + 1 if tokens else 0 : position]
    line = gap[gap.rfind("\n") + 1 :]
    return "--" in line


def _until_semicolon(tokens: list[Token]) -> list[Token]:
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            return tokens[:index]
    return tokens


def _statement_tokens(tokens: list[Token]) -> tuple[list[Token], bool]:
    """The tokens of the last statement, and whether a statement set is open around it."""
    start = 0
    is_in_set = False
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            words = [word(t) for t in tokens[start:index]]
            is_in_set = words == ["BEGIN", "STATEMENT", "SET"] or (is_in_set and words != ["END"])
            start = index + 1
        elif word(token) == "BEGIN" and [word(t) for t in tokens[max(index - 2, 0) : index]] == [
            "STATEMENT",
            "SET",
        ]:
            is_in_set = True
            start = index + 1
    return tokens[start:], is_in_set
