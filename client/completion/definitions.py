"""What may stand between the brackets of CREATE TABLE."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token

from sqlstream.client.completion.candidates import Name
from sqlstream.client.completion.cursor import is_name
from sqlstream.client.completion.tree import Group, Item, place_in_tree, word_of
from sqlstream.client.completion.wanted import TYPES, Wanted, wanted_at, wanted_in_expression

_ELEMENTS = ("WATERMARK FOR", "PRIMARY KEY", "CONSTRAINT")
_AFTER_TYPE = ("NOT NULL", "PRIMARY KEY NOT ENFORCED", "METADATA", "COMMENT")


def defined_columns(tokens: Sequence[Token]) -> list[Name]:
    """The columns of `name TYPE …, …`, with the first word of their type."""
    found = []
    group = place_in_tree(tokens, ()).group
    while group.parent is not None:
        group = group.parent
    for element in _elements(group.items):
        first, second = (*element, None, None)[:2]
        if (
            isinstance(first, Token)
            and is_name(first)
            and isinstance(second, Token)
            and not _is_constraint(element)
        ):
            found.append(Name(first.text, second.text.upper() if second.text.upper() in TYPES else ""))
    return found


def wanted_in_definitions(tokens: Sequence[Token]) -> Wanted:
    """What may follow `tokens`, which begin after the opening bracket."""
    place = place_in_tree(tokens, ())
    if place.group.parent is not None:
        return wanted_at(place) if place.group.opener != "KEY" else Wanted(is_operand=True)
    element = _elements(place.before, keeps_empty=True)[-1]
    words = [word_of(i) for i in element]
    if not element:
        return Wanted(_ELEMENTS)
    if _is_constraint(element):
        return _in_constraint(element, words)
    if len(element) == 1:
        return Wanted(("AS", "METADATA"), has_types=True)
    if words[1] == "AS":
        return _after_as(element)
    if words[-1] == "NOT":
        return Wanted(("NULL", "ENFORCED"))
    if words[-1] == "METADATA":
        return Wanted(("FROM", "VIRTUAL"))
    if words[-1] == "PRIMARY":
        return Wanted(("KEY NOT ENFORCED",))
    if "METADATA" in words:
        return Wanted(("VIRTUAL", "COMMENT"))
    return Wanted(tuple(k for k in _AFTER_TYPE if k.split()[0] not in words))


def _in_constraint(element: Sequence[Item], words: Sequence[str]) -> Wanted:
    if words[0] == "WATERMARK":
        if len(words) == 1:
            return Wanted(("FOR",))
        if words[-1] == "FOR":
            return Wanted(is_operand=True)
        return Wanted(("AS",)) if "AS" not in words else _after_as(element)
    if words[-1] == "PRIMARY":
        return Wanted(("KEY",))
    if words[0] == "CONSTRAINT" and len(words) == 2:
        return Wanted(("PRIMARY KEY",))
    if isinstance(element[-1], Group):
        return Wanted(("NOT ENFORCED",))
    return Wanted(("ENFORCED",) if words[-1] == "NOT" else ())


def _after_as(element: Sequence[Item]) -> Wanted:
    start = next(i for i, item in enumerate(element) if word_of(item) == "AS") + 1
    return wanted_in_expression(element[start:], ())


def _is_constraint(element: Sequence[Item]) -> bool:
    words = [word_of(i) for i in element[:2]]
    return (
        words[0] == "CONSTRAINT"
        or words in (["WATERMARK", "FOR"], ["PRIMARY", "KEY"])
        or (len(element) == 1 and words[0] in ("WATERMARK", "PRIMARY"))
    )


def _elements(items: Sequence[Item], keeps_empty: bool = False) -> list[Sequence[Item]]:
    """The parts between commas; brackets of types are groups, so their commas do not count."""
    found: list[Sequence[Item]] = []
    start = 0
    for i in range(len(items) + 1):
        if i == len(items) or word_of(items[i]) == ",":
            if i > start or keeps_empty:
                found.append(items[start:i])
            start = i + 1
    return found
