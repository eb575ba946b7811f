"""A script's text → the pieces between its semicolons."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import Token, TokenType

from sqlstream.errors import Span
from sqlstream.planner.dialect.tokens import tokenize, word


@dataclasses.dataclass(frozen=True)
class Piece:
    """One statement's text, first to last token; `is_terminated`: a semicolon follows."""

    text: str
    span: Span
    is_terminated: bool
    tokens: tuple[Token, ...] = dataclasses.field(repr=False)


def iterate_script(text: str, offset: int = 0) -> Iterator[Piece]:
    """The pieces in order; text that is not SQL raises SS1001 when the iterator reaches it, and no earlier.

    Semicolons in strings, quoted identifiers, comments and statement sets do not end a piece.
    """
    tokens: list[Token] = []
    for token in tokenize(text, offset=offset):
        if token.token_type is not TokenType.SEMICOLON or is_open_statement_set(tokens):
            tokens.append(token)
        elif tokens:
            yield _piece(text, offset, tokens, True)
            tokens = []
    if tokens:
        yield _piece(text, offset, tokens, False)


def split_script(text: str) -> list[Piece]:
    """All pieces of a script."""
    return list(iterate_script(text))


def _piece(text: str, offset: int, tokens: list[Token], is_terminated: bool) -> Piece:
    start, end = tokens[0].start, tokens[-1].end + 1
    return Piece(text[start - offset : end - offset], Span(start, end), is_terminated, tuple(tokens))


def is_open_statement_set(tokens: list[Token]) -> bool:
    """Whether `tokens` begin a statement set without its END."""
    first = word(tokens[0]) if tokens else ""
    if first not in ("BEGIN", "COMPILE", "EXECUTE", "EXPLAIN", "STATEMENT", "VERIFY"):
        return False
    words = [word(t) for t in tokens[:16]]
    is_set = words[:3] == ["BEGIN", "STATEMENT", "SET"] or any(
        words[i : i + 3] == ["STATEMENT", "SET", "BEGIN"] for i in range(len(words) - 2)
    )
    # END closes the set only where a statement could begin: the END of a CASE never follows a semicolon.
    is_closed = word(tokens[-1]) == "END" and word(tokens[-2]) in (";", "BEGIN")
    return is_set and not is_closed
