"""A small notation for the grammar of commands, and the words that may follow a beginning of one.

`SHOW TABLES [(FROM | IN) <database>] [[NOT] LIKE <pattern>]`: capitals are keywords, `<…>` is a slot, `[…]` may be absent,
`(… | …)` is a choice, `{…}` may be repeated. A slot stands for a dotted name, a string, one group in parentheses, or for all
that follows (`<query>`); SLOTS says which.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from sqlglot import Token, TokenType

from sqlstream.client.completion.cursor import is_name
from sqlstream.client.completion.tree import QUERY_WORDS
from sqlstream.planner.dialect.tokens import word

_PART = re.compile(r"<\w+>|\w+|[\[\](){}|=,.]")


@dataclasses.dataclass(frozen=True)
class Keyword:
    text: str


@dataclasses.dataclass(frozen=True)
class Slot:
    """`index`, in an expectation, is where the slot's tokens begin."""

    name: str
    index: int = 0


@dataclasses.dataclass(frozen=True)
class Choice:
    options: tuple[Phrase, ...]


@dataclasses.dataclass(frozen=True)
class Repeated:
    inner: Phrase


@dataclasses.dataclass(frozen=True)
class Phrase:
    parts: tuple[Keyword | Slot | Choice | Repeated, ...]


Expected = set[Keyword | Slot]


def parse_phrase(text: str) -> Phrase:
    """A phrase of the notation above. ValueError for a wrong one."""
    parts = _PART.findall(text)
    phrase, end = _sequence(parts, 0)
    if end < len(parts):
        raise ValueError(f"unexpected {parts[end]!r} in {text!r}")
    return phrase


def _sequence(parts: Sequence[str], index: int) -> tuple[Phrase, int]:
    found: list[Keyword | Slot | Choice | Repeated] = []
    while index < len(parts) and parts[index] not in "])}|":
        part = parts[index]
        index += 1
        if part in "[({":
            options, index = _options(parts, index)
            if part == "[":
                options.append(Phrase(()))
            found.append(
                Repeated(Phrase((Choice(tuple(options)),))) if part == "{" else Choice(tuple(options))
            )
        elif part.startswith("<"):
            found.append(Slot(part[1:-1]))
        else:
            found.append(Keyword(part))
    return Phrase(tuple(found)), index


def _options(parts: Sequence[str], index: int) -> tuple[list[Phrase], int]:
    """The alternatives up to the closing bracket."""
    options = []
    while True:
        option, index = _sequence(parts, index)
        options.append(option)
        index += 1
        if parts[index - 1] != "|":
            return options, index


def expected_after(phrase: Phrase, tokens: Sequence[Token]) -> Expected:
    """The keywords and slots that may follow `tokens`; empty when the tokens are no beginning of the phrase."""
    expected: Expected = set()
    _follow(phrase, tokens, 0, expected)
    return expected


def _follow(node: object, tokens: Sequence[Token], index: int, expected: Expected) -> set[int]:
    """Where `node` may end that begins at `index`; what it needs beyond the last token is added to `expected`."""
    match node:
        case Keyword(text):
            if index == len(tokens):
                expected.add(node)
                return set()
            return {index + 1} if word(tokens[index]) == text else set()
        case Slot(name):
            if index == len(tokens):
                expected.add(Slot(name, index))
                return set()
            end = SLOTS[name](tokens, index)
            if end is None:
                expected.add(Slot(name, index))
                return set()
            return {end} if end > index else set()
        case Choice(options):
            return {end for option in options for end in _follow(option, tokens, index, expected)}
        case Phrase(parts):
            ends = {index}
            for part in parts:
                ends = {end for start in ends for end in _follow(part, tokens, start, expected)}
            return ends
        case Repeated(inner):
            ends, fresh = {index}, {index}
            while fresh:
                fresh = {end for start in fresh for end in _follow(inner, tokens, start, expected)} - ends
                ends |= fresh
            return ends
    raise TypeError(node)


# -- slots: where the one that begins at `index` ends; `index` when there is none; None when the cursor is within it --------


def name_end(tokens: Sequence[Token], index: int) -> int:
    """The end of the dotted name that begins at `index`."""
    if not is_name(tokens[index]):
        return index
    index += 1
    while (
        index + 1 < len(tokens) and tokens[index].token_type is TokenType.DOT and is_name(tokens[index + 1])
    ):
        index += 2
    return index


def _string(tokens: Sequence[Token], index: int) -> int | None:
    return index + 1 if tokens[index].token_type is TokenType.STRING else index


def _group(tokens: Sequence[Token], index: int) -> int | None:
    if tokens[index].token_type is not TokenType.L_PAREN:
        return index
    depth = 0
    for end in range(index, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[end].token_type, 0)
        if not depth:
            return end + 1
    return None


def _query(tokens: Sequence[Token], index: int) -> int | None:
    first = index
    while first < len(tokens) and tokens[first].token_type is TokenType.L_PAREN:
        first += 1
    is_query = first < len(tokens) and word(tokens[first]) in QUERY_WORDS
    return None if is_query else index


def _rest(tokens: Sequence[Token], index: int) -> int | None:
    return None


SLOTS: dict[str, Callable[[Sequence[Token], int], int | None]] = {
    "table": name_end,
    "view": name_end,
    "relation": name_end,
    "database": name_end,
    "catalog": name_end,
    "function": name_end,
    "user_function": name_end,
    "connector": name_end,
    "format": name_end,
    "model": name_end,
    "new_name": name_end,
    "setting": _string,
    "value": _string,
    "text": _string,
    "job": _string,
    "file": _string,
    "columns": _group,
    "definitions": _group,
    "options": _group,
    "model_columns": _group,
    "model_options": _group,
    "database_options": _group,
    "catalog_options": _group,
    "query": _query,
    "procedure": name_end,
    "assignments": _rest,
    "condition": _rest,
    "statement": _rest,
}
