"""Regular expressions that are found by their literal, without an automaton: `(&|^)id=([^&]*)`, `^v(\\d+)$`, `error: .*`.

They consist of, in this order: `^`, a class of ASCII, or alternatives of single characters and `^`; a literal; a class with `*`
or `+`, in a group or not; a character that is not of the class, or `$`. The literal is there, all else may be missing. Nothing
in them can match in two ways, so that the first place that matches is the match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.text.pattern_scan import (
    AFTER,
    HAS_BEFORE,
    MAY_BEGIN,
    RUN_MIN,
    WANTS_RUN,
    extract,
)

_TOKEN = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\\[])+\]|\((?:\?:)?|.", re.DOTALL)
_NAMED = {
    "d": frozenset(b"0123456789"),
    "s": frozenset(b"\t\n\f\r "),
    "w": frozenset(c for c in range(128) if chr(c).isalnum() or chr(c) == "_"),
}
_BYTES = frozenset(range(256))
_ASCII = frozenset(range(128))
_OPERATORS = frozenset(r"\.+*?()|[]{}^$")


@dataclass(frozen=True)
class ScannedPattern:
    """An expression of this form. `before` is what may precede the literal, `run` the class behind it, both as bytes."""

    literal: bytes
    rules: tuple[int, ...]
    before: frozenset[int]
    run: frozenset[int]

    def extract(self, texts: pa.Array) -> pa.Array:
        """The wanted group of the first match of each text; NULL without one."""
        rules = np.array(self.rules, np.int64)
        return extract(texts, self.literal, _table(self.before), _table(self.run), rules)


def scanned_pattern(regex: str, group: int) -> ScannedPattern | None:
    """The expression, of which `group` is wanted; None for one of another form.

    >>> scanned_pattern("(&|^)id=([^&]*)", 2).literal
    b'id='
    >>> scanned_pattern("(a|b)+c", 0) is None
    True
    """
    tokens = _TOKEN.findall(regex)
    may_begin, has_before, before, used, groups = _head(tokens)
    literal, tokens = _literal(tokens[used:])
    if not literal or (not before <= _ASCII and has_before == 1):
        return None
    if may_begin and has_before == 1 and literal[0] in before:
        return None
    run: frozenset[int] = frozenset()
    run_min, run_group = -1, -1
    times = ""
    match tokens:
        case ["(" | "(?:" as opening, of, "*" | "+" as sign, ")", *rest]:
            found, times = _class(of), sign
            groups += opening == "("
            run_group = groups if opening == "(" else -1
        case [of, "*" | "+" as sign, *rest]:
            found, times = _class(of), sign
        case rest:
            found = frozenset()
    if found is None:
        return None
    if times:
        run, run_min = found, 1 if times == "+" else 0
    after = _after(rest, run)
    if after is None or group not in (0, run_group):
        return None
    rules = {
        MAY_BEGIN: int(may_begin),
        HAS_BEFORE: has_before,
        RUN_MIN: run_min,
        AFTER: after,
        WANTS_RUN: int(group != 0),
    }
    return ScannedPattern(literal, tuple(rules[i] for i in range(len(rules))), before, run)


def _head(tokens: list[str]) -> tuple[bool, int, frozenset[int], int, int]:
    """(whether the literal may begin the text; 1 when a byte of the set precedes it elsewhere, 2 when anything may; the set; how
    many tokens say so; how many groups they capture)."""
    match tokens:
        case ["^", *_]:
            return True, 0, frozenset(), 1, 0
        case ["(" | "(?:" as opening, *rest] if ")" in rest:
            end = rest.index(")")
            choices, bars = rest[:end:2], rest[1:end:2]
            characters = [_character(c) for c in choices if c != "^"]
            known = frozenset(ord(c) for c in characters if c is not None and c.isascii())
            if end % 2 and set(bars) <= {"|"} and len(known) == len(set(characters)):
                return "^" in choices, 1 if known else 0, known, end + 2, int(opening == "(")
        case [of, *rest] if rest and (known := _class(of) or frozenset()):
            return False, 1, known, 1, 0
    return True, 2, _BYTES, 0, 0


def _literal(tokens: list[str]) -> tuple[bytes, list[str]]:
    """The characters at the beginning, and the tokens behind them."""
    characters = []
    for token in tokens:
        character = _character(token)
        if character is None:
            break
        characters.append(character)
    rest = tokens[len(characters) :]
    # What follows may say how often the last character is there.
    return ("".join(characters).encode(), rest) if rest[:1] not in (["*"], ["+"]) else (b"", rest)


def _character(token: str) -> str | None:
    """The character that a token stands for; None for another one."""
    if len(token) == 1:
        return None if token in _OPERATORS else token
    is_escape = len(token) == 2 and token[0] == "\\" and token[1].isascii() and token[1].isprintable()
    return token[1] if is_escape and not token[1].isalnum() and token[1] not in "_ " else None


def _class(token: str) -> frozenset[int] | None:
    """The bytes of a class; None for what is none, or has other members than ASCII. One that is negated has all other bytes."""
    if token == ".":
        return _BYTES - {10}
    if token[0] == "\\":
        return _NAMED.get(token[1:])
    if token[0] != "[" or len(token) < 3:
        return None
    is_negated = token[1] == "^"
    members: set[int] = set()
    items = re.findall(r"\\x[0-9A-F]{2}|\\.|.", token[2 if is_negated else 1 : -1], re.DOTALL)
    while items:
        first = items.pop(0)
        known = _NAMED.get(first[1:]) if len(first) == 2 else None
        if known is not None:
            members |= known
            continue
        low = _member(first)
        high = low
        if items[:1] == ["-"]:
            high = _member(items[1]) if len(items) > 1 else None
            del items[:2]
        if low is None or high is None or high < low:
            return None
        members |= set(range(low, high + 1))
    return _BYTES - members if is_negated else frozenset(members)


def _member(item: str) -> int | None:
    if len(item) == 4:
        return int(item[2:], 16)
    if len(item) == 1:
        return ord(item) if item.isascii() and item not in "-^[]" else None
    character = _character(item)
    return None if character is None else ord(character)


def _after(tokens: list[str], run: frozenset[int]) -> int | None:
    """What follows the run: a byte, -1 for anything, -2 for the end of the text; None for another expression."""
    if not tokens:
        return -1
    if tokens == ["$"]:
        return -2
    character = _character(tokens[0])
    is_end = len(tokens) == 1 and character is not None and character.isascii()
    return ord(character) if is_end and character is not None and ord(character) not in run else None


def _table(members: frozenset[int]) -> np.ndarray:
    table = np.zeros(256, np.bool_)
    table[list(members)] = True
    return table
