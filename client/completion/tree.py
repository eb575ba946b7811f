"""Tokens → a tree of groups in brackets, with the cursor's place in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlglot import Token, TokenType

from sqlstream.planner.dialect.tokens import RESERVED, is_word, word

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.HINT})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.BLOCK_END})
_VALUE_WORDS = frozenset({
    "END", "NULL", "TRUE", "FALSE", "UNKNOWN", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME",
    "LOCALTIMESTAMP",
})  # fmt: skip
_LITERALS = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER})
QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES"})


@dataclasses.dataclass(eq=False)
class Group:
    """What stands between two brackets; the whole text for the root. `index` is its place in its parent's items."""

    parent: Group | None = None
    index: int = 0
    items: list[Token | Group] = dataclasses.field(default_factory=list)

    @property
    def is_query(self) -> bool:
        """Whether a query stands here, perhaps in brackets of its own, and perhaps not complete."""
        if self.parent is None:
            return True
        first: Item | None = self
        while isinstance(first, Group):
            first = first.items[0] if first.items else None
        return word_of(first) in QUERY_WORDS

    @property
    def opener(self) -> str:
        """The word before the bracket: a function, or a keyword such as OVER."""
        return word_of(self.parent.items[self.index - 1]) if self.parent is not None and self.index else ""


Item = Token | Group


@dataclasses.dataclass(frozen=True)
class Place:
    """The cursor stands in `group`, before the item with `index`."""

    group: Group
    index: int

    @property
    def before(self) -> Sequence[Item]:
        return self.group.items[: self.index]


def place_in_tree(before: Iterable[Token], after: Sequence[Token]) -> Place:
    """The tree of all tokens. A bracket that nothing opens is left out. One around the cursor that nothing closes ends at the
    cursor, unless it holds a query: the user has not typed its end yet."""
    group = _append_all(Group(), before)
    place = Place(group, len(group.items))
    unclosed = _depth(group) - _closed(after)
    while unclosed > 0 and group.parent is not None and not group.is_query:
        group, unclosed = group.parent, unclosed - 1
    _append_all(group, after)
    return place


def _depth(group: Group) -> int:
    depth = 0
    while group.parent is not None:
        group, depth = group.parent, depth + 1
    return depth


def _closed(tokens: Sequence[Token]) -> int:
    """How many brackets that were open before the tokens are closed by them."""
    depth = lowest = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        lowest = min(lowest, depth)
    return -lowest


def _append_all(group: Group, tokens: Iterable[Token]) -> Group:
    for token in tokens:
        if token.token_type in _OPENING:
            inner = Group(group, len(group.items))
            group.items.append(inner)
            group = inner
        elif token.token_type in _CLOSING:
            group = group.parent or group
        else:
            group.items.append(token)
    return group


def word_of(item: Item | None) -> str:
    """The keyword or symbol of an item; "" for literals, quoted names and groups."""
    return word(item) if isinstance(item, Token) else ""


def ends_operand(item: Item) -> bool:
    """Whether an expression may end with this item, so that an operator can follow it."""
    if isinstance(item, Group):
        return True
    if item.token_type in _LITERALS:
        return True
    return is_word(item) and (word(item) not in RESERVED or word(item) in _VALUE_WORDS)
