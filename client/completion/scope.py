"""The tables and columns that a query's FROM brings into scope, read from text that need not be complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import Token

from sqlstream.client.completion.candidates import Name, Vocabulary
from sqlstream.client.completion.cursor import is_name
from sqlstream.client.completion.tree import Group, Item, Place, ends_operand, word_of
from sqlstream.planner.dialect.tokens import RESERVED, TABLE_FUNCTIONS, WINDOW_FUNCTIONS

CLAUSES = frozenset({
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "VALUES",
})  # fmt: skip
SET_OPERATORS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})

_WINDOW_COLUMNS = tuple(Name(f"window_{end}", "TIMESTAMP(3)") for end in ("start", "end", "time"))
_DEPTH_MAX = 8
"""Queries within queries whose columns are looked up."""


@dataclasses.dataclass(frozen=True)
class Source:
    """One item of FROM: a table's path or a query in brackets. `is_windowed`: a window function adds its columns."""

    path: tuple[str, ...] = ()
    query: Group | None = None
    alias: str = ""
    is_windowed: bool = False

    @property
    def name(self) -> str:
        return self.alias or (self.path[-1] if self.path else "")


@dataclasses.dataclass(frozen=True)
class Scope:
    """What names mean at one place: the sources of the query there, inner ones first, and the queries of WITH by name."""

    sources: tuple[Source, ...]
    named_queries: Mapping[str, Group]


def scope_at(place: Place) -> Scope:
    """The scope of the query around a place; correlated names of the queries around it follow."""
    sources: list[Source] = []
    named: dict[str, Group] = {}
    group, index = place.group, place.index
    while True:
        if group.is_query:
            sources += sources_of(select_around(group.items, index))
            named = {**named_queries(group.items), **named}
        if group.parent is None:
            break
        group, index = group.parent, group.index
    return Scope(tuple(sources), named)


def select_around(items: Sequence[Item], index: int) -> Sequence[Item]:
    """The items of the SELECT around `index`, between the set operators on both sides."""
    start, end = 0, len(items)
    for i, item in enumerate(items):
        if word_of(item) in SET_OPERATORS:
            if i >= index:
                end = i
                break
            start = i + 1
    return items[start:end]


def named_queries(items: Sequence[Item]) -> dict[str, Group]:
    """The queries of `WITH name AS (…), …` by name in lower case."""
    if not items or word_of(items[0]) != "WITH":
        return {}
    found = {}
    for i in range(3, len(items) + 1):
        name, as_, group = items[i - 3 : i]
        if isinstance(name, Token) and is_name(name) and word_of(as_) == "AS" and isinstance(group, Group):
            found[name.text.lower()] = group
    return found


# -- FROM ----------------------------------------------------------------------------------------------


def clause_items(items: Sequence[Item], clause: str) -> Sequence[Item]:
    """The items between the clause's keyword and the next clause."""
    start = None
    for i in range(len(items)):
        found = clause_word(items, i)
        if start is None and found == clause:
            start = i + 1
        elif start is not None and found:
            return items[start:i]
    return () if start is None else items[start:]


def clause_word(items: Sequence[Item], index: int) -> str:
    """The clause that begins with this item, else ""."""
    found = word_of(items[index])
    previous = word_of(items[index - 1]) if index else ""
    if found not in CLAUSES or (previous, found) in (("DISTINCT", "FROM"), ("WITHIN", "GROUP")):
        return ""
    return found


def sources_of(items: Sequence[Item]) -> list[Source]:
    """The sources of a SELECT's FROM."""
    items = clause_items(items, "FROM")
    starts = [0, *(i + 1 for i, item in enumerate(items) if word_of(item) in (",", "JOIN"))]
    ends = [*(start - 1 for start in starts[1:]), len(items)]
    found = (_source(items[a:b]) for a, b in zip(starts, ends, strict=True))
    return [source for source in found if source is not None]


def _source(items: Sequence[Item]) -> Source | None:
    index = 0
    while index < len(items) and word_of(items[index]) in ("TABLE", "LATERAL"):
        index += 1
    if index == len(items):
        return None
    first = items[index]
    if isinstance(first, Group):
        source = Source(query=first) if first.is_query else windowed_source(first)
        return _with_alias(source, items[index + 1 :])
    path, end = _path(items, index)
    if not path:
        return None
    if end < len(items) and isinstance(group := items[end], Group) and path[-1].upper() in TABLE_FUNCTIONS:
        source = windowed_source(group)
        if path[-1].upper() not in WINDOW_FUNCTIONS:
            source = dataclasses.replace(source, is_windowed=False)
        return _with_alias(source, items[end + 1 :])
    return _with_alias(Source(path), [i for i in items[end:] if not isinstance(i, Group)])


def windowed_source(group: Group) -> Source:
    """The table of `TUMBLE(TABLE t, …)`, of which `group` holds the arguments, or the whole call."""
    calls = [i for i in group.items if isinstance(i, Group)] if len(group.items) == 2 else []
    for items in (group.items, *(call.items for call in calls)):
        start = next((i + 1 for i, item in enumerate(items) if word_of(item) == "TABLE"), None)
        if start is not None:
            return Source(_path(items, start)[0], is_windowed=True)
    return Source()


def _path(items: Sequence[Item], index: int) -> tuple[tuple[str, ...], int]:
    """A dotted name from `index` on, and where it ends."""
    parts: list[str] = []
    while index < len(items):
        item = items[index]
        if not isinstance(item, Token) or not is_name(item) or _is_keyword(item):
            break
        parts.append(item.text)
        index += 1
        if index == len(items) or word_of(items[index]) != ".":
            break
        index += 1
    return tuple(parts), index


def _is_keyword(token: Token) -> bool:
    return word_of(token) in RESERVED


def _with_alias(source: Source, items: Sequence[Item]) -> Source:
    if items and word_of(items[0]) == "AS":
        items = items[1:]
    first = items[0] if items else None
    if isinstance(first, Token) and is_name(first) and not _is_keyword(first):
        return dataclasses.replace(source, alias=first.text)
    return source


# -- columns -------------------------------------------------------------------------------------------


def columns_of(
    source: Source, named: Mapping[str, Group], vocabulary: Vocabulary, depth: int = 0
) -> list[Name]:
    """The columns of a source, as far as the text tells."""
    query = source.query or (named.get(source.path[0].lower()) if len(source.path) == 1 else None)
    if query is not None:
        found = output_columns(query, named, vocabulary, depth + 1)
    else:
        found = list(vocabulary.columns(source.path)) if source.path else []
    return [*found, *_WINDOW_COLUMNS] if source.is_windowed else found


def output_columns(
    group: Group, named: Mapping[str, Group], vocabulary: Vocabulary, depth: int = 0
) -> list[Name]:
    """The columns of a query in brackets: aliases, names of columns, and all columns for `*`."""
    if depth > _DEPTH_MAX or not group.items:
        return []
    if isinstance(first := group.items[0], Group):
        return output_columns(first, named, vocabulary, depth + 1)
    # A query of WITH does not see itself.
    named = {name: query for name, query in named.items() if query is not group} | named_queries(group.items)
    start = next((i for i, item in enumerate(group.items) if word_of(item) == "SELECT"), 0)
    items = select_around(group.items, start)
    sources = sources_of(items)
    names: list[Name] = []
    for expression in _split(clause_items(items, "SELECT")):
        if word_of(expression[-1]) != "*":
            names += _output_name(expression)
            continue
        qualifier = expression[-3] if len(expression) >= 3 else None
        for source in sources:
            if qualifier is None or (isinstance(qualifier, Token) and _is_called(source, qualifier.text)):
                names += columns_of(source, named, vocabulary, depth)
    return names


def _is_called(source: Source, name: str) -> bool:
    return source.name.lower() == name.lower()


def _split(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The parts between commas that are not empty."""
    start = 0
    for i in range(len(items) + 1):
        if i == len(items) or word_of(items[i]) == ",":
            if i > start:
                yield items[start:i]
            start = i + 1


def _output_name(expression: Sequence[Item]) -> list[Name]:
    last = expression[-1]
    if not isinstance(last, Token) or not is_name(last) or _is_keyword(last):
        return []
    previous = expression[-2] if len(expression) > 1 else None
    is_alias = word_of(previous) == "AS" or (previous is not None and ends_operand(previous))
    is_column = previous is None or word_of(previous) == "."
    return [Name(last.text)] if is_alias or is_column else []
