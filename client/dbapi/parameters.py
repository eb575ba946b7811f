"""Parameters in the place of `?`: a statement and its values → one SQL text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import Token, TokenType

from sqlstream.client.dbapi.errors import ProgrammingError, translating
from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.planner.dialect.tokens import tokenize, word

ROWS_PER_INSERT = 1_000
"""Rows of `executemany` in one INSERT, that is, in one job."""

INSERT_CHARACTERS_MAX = 1_000_000

Parameters = Sequence[Any]


def with_parameters(statement: str, parameters: Parameters | None) -> str:
    """The statement with a literal for each `?`. ProgrammingError when their numbers differ.

    >>> with_parameters("SELECT '?', a FROM t WHERE b = ?", ["x'y"])
    "SELECT '?', a FROM t WHERE b = 'x''y'"
    """
    if parameters is None:
        return statement
    return _filled(statement, _places(statement), _checked(parameters))


def bulk_inserts(statement: str, rows: Sequence[Parameters]) -> Iterator[str] | None:
    """Few INSERT statements that insert all rows; None when `statement` is no INSERT with one row of VALUES at its end.

    >>> list(bulk_inserts("INSERT INTO t VALUES (?, 1)", [["a"], ["b"]]))
    ["INSERT INTO t VALUES ('a', 1),\\n('b', 1)"]
    """
    with translating(statement):
        tokens = list(tokenize(statement))
    row = _values_row(tokens)
    return None if row is None else _grouped(statement, *row, rows)


def _grouped(statement: str, start: int, end: int, rows: Sequence[Parameters]) -> Iterator[str]:
    head, row = statement[:start], statement[start:end]
    places = _places(row)
    texts: list[str] = []
    characters = 0
    for parameters in rows:
        text = _filled(row, places, _checked(parameters))
        if texts and (len(texts) == ROWS_PER_INSERT or characters + len(text) > INSERT_CHARACTERS_MAX):
            yield head + ",\n".join(texts)
            texts, characters = [], 0
        texts.append(text)
        characters += len(text)
    if texts:
        yield head + ",\n".join(texts)


def _checked(parameters: Parameters) -> Parameters:
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        raise ProgrammingError(
            f'parameters are a sequence with a value for each "?", not {type(parameters).__name__}',
            hint="write a list or tuple, such as [value]",
        )
    return parameters


def _places(statement: str) -> list[int]:
    """Where the question marks are that stand for parameters."""
    with translating(statement):
        return [t.start for t in tokenize(statement) if t.token_type is TokenType.PLACEHOLDER]


def _filled(statement: str, places: list[int], parameters: Parameters) -> str:
    if len(places) != len(parameters):
        raise ProgrammingError(
            f'the statement has {len(places)} "?" and {len(parameters)} parameters were given',
            hint='give one value for each "?"',
        )
    parts, position = [], 0
    for place, value in zip(places, parameters, strict=True):
        parts += [statement[position:place], sql_literal(value)]
        position = place + 1
    return "".join([*parts, statement[position:]])


def _values_row(tokens: list[Token]) -> tuple[int, int] | None:
    """Start and end of the row in `INSERT … VALUES (…)`, when there is exactly one."""
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or word(tokens[0]) != "INSERT":
        return None
    depth = 0
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and word(token) == "VALUES":
            return _only_row(tokens[index + 1 :])
        elif depth == 0 and word(token) == "SELECT":
            return None
    return None


def _only_row(tokens: list[Token]) -> tuple[int, int] | None:
    depth = 0
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        if depth == 0:
            is_row = index == len(tokens) - 1 and token.token_type is TokenType.R_PAREN
            return (tokens[0].start, token.end + 1) if is_row else None
    return None
