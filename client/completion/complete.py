"""Text and cursor → candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from sqlglot import Token, TokenType

from sqlstream.client.completion.candidates import Candidate, CandidateKind, Name, OptionName, Vocabulary
from sqlstream.client.completion.cursor import Cursor, is_name, read_cursor
from sqlstream.client.completion.definitions import (
    defined_columns,
    expected_in_statement,
    model_options,
    option_choices,
    option_keys,
    option_pairs,
    option_place,
    wanted_in_definitions,
)
from sqlstream.client.completion.phrases import Keyword, Slot, name_end
from sqlstream.client.completion.scope import Scope, Source, columns_of, scope_at, windowed_source
from sqlstream.client.completion.tree import place_in_tree
from sqlstream.client.completion.wanted import TYPES, UNITS, Wanted, wanted_at
from sqlstream.planner.dialect.tokens import RESERVED, is_word, word
from sqlstream.spi.format import FORMAT_KEYS

CANDIDATES_MAX = 500

_ORDER = {kind: index for index, kind in enumerate(CandidateKind)}


def complete(text: str, position: int, vocabulary: Vocabulary) -> tuple[Candidate, ...]:
    """What the name at `position` may become, best first; nothing where the text leaves no guess. `text` may be broken, and
    may hold several statements. At most CANDIDATES_MAX candidates; never raises for a wrong text."""
    cursor = read_cursor(text, position)
    if cursor is None:
        return ()
    found = _Completion(cursor, vocabulary)
    found.in_statement(cursor.before)
    return found.candidates()


@dataclasses.dataclass
class _Proposal:
    text: str
    kind: CandidateKind
    detail: str


class _Completion:
    """One completion. State: the proposals so far, in the order in which they were found."""

    def __init__(self, cursor: Cursor, vocabulary: Vocabulary) -> None:
        self._cursor = cursor
        self._vocabulary = vocabulary
        self._proposals: list[_Proposal] = []
        self._columns: list[Name] = []

    # -- statements ---------------------------------------------------------------------------------

    def in_statement(self, tokens: Sequence[Token], is_in_set: bool | None = None) -> None:
        is_in_set = self._cursor.is_in_set if is_in_set is None else is_in_set
        if self._in_hint(tokens):
            return
        for expected in sorted(expected_in_statement(tokens, is_in_set), key=repr):
            if isinstance(expected, Keyword):
                self._keywords([expected.text])
            else:
                self._slot(expected, tokens)

    def _slot(self, slot: Slot, tokens: Sequence[Token]) -> None:
        inner = tokens[slot.index + 1 :]
        is_inside = slot.index < len(tokens)
        match slot.name:
            case "table" | "view" | "relation":
                self._relations(slot.name)
            case "database":
                self._databases()
            case "catalog":
                self._names(self._vocabulary.catalogs(), CandidateKind.CATALOG)
            case "function":
                self._add(self._vocabulary.functions(), CandidateKind.FUNCTION)
            case "user_function":
                own = [f for f in self._vocabulary.functions() if f.text.islower()]
                self._add(own, CandidateKind.FUNCTION)
            case "connector":
                self._names(self._vocabulary.connectors(), CandidateKind.CONNECTOR)
            case "model":
                self._names(self._vocabulary.models(), CandidateKind.MODEL)
            case "format":
                self._names(self._vocabulary.formats(), CandidateKind.FORMAT)
            case "setting" | "value":
                self._setting(slot.name, tokens)
            case "file":
                self._file_paths()
            case "job":
                self._strings(self._vocabulary.jobs(), CandidateKind.JOB)
            case "columns" if is_inside:
                self._add(self._columns_before(tokens[: slot.index]), CandidateKind.COLUMN)
            case "definitions" if is_inside:
                self._in_definitions(inner)
            case "options" if is_inside:
                self._in_options(inner, tokens[: slot.index])
            case "model_options" if is_inside:
                self._pairs(inner, model_options(option_pairs([*inner, *self._cursor.after])), ())
            case "catalog_options" if is_inside:
                self._pairs(inner, _CATALOG_OPTIONS, ())
            case "procedure":
                from sqlstream.client.statements.procedures import PROCEDURES

                self._names(PROCEDURES, CandidateKind.FUNCTION)
            case "assignments" | "condition":
                self._in_changes(slot.name, tokens[: slot.index], tokens[slot.index :])
            case "query":
                self._in_query(tokens[slot.index :])
            case "statement":
                self.in_statement(tokens[slot.index :], False)

    def _relations(self, kind: str) -> None:
        wanted = {"view": ("view",), "table": ("table",)}.get(kind, ("table", "view"))
        catalog, database = (*("",) * (2 - len(self._cursor.qualifiers)), *self._cursor.qualifiers)[-2:]
        for name in self._vocabulary.tables(catalog, database):
            if name.detail in wanted:
                self._propose(quoted(name.text), CandidateKind(name.detail), name.detail)
            if kind == "relation" and name.detail == "table" and "$" in self._cursor.prefix:
                self._beside(name.text, ("late", "errors", "expired"))
        if kind == "relation" and "$" in self._cursor.prefix:
            for model in self._vocabulary.models():
                self._beside(model, ("weights",))
        if len(self._cursor.qualifiers) < 2:
            self._databases()

    def _beside(self, of: str, kinds: tuple[str, ...]) -> None:
        """`t$late`, `t$errors` and `t$expired`, where the table has them, and `m$weights` of a model; the user has typed a $."""
        for kind in kinds:
            name = f"{of}${kind}"
            if self._vocabulary.columns((*self._cursor.qualifiers, name)):
                self._propose(quoted(name), CandidateKind.TABLE, "table")

    def _databases(self) -> None:
        """Databases of the current catalog or of the one before the dot, and catalogs."""
        qualifiers = self._cursor.qualifiers
        if len(qualifiers) > 1:
            return
        for name in self._vocabulary.databases(qualifiers[0] if qualifiers else ""):
            self._propose(quoted(name), CandidateKind.DATABASE, "database")
        if not qualifiers:
            self._names(self._vocabulary.catalogs(), CandidateKind.CATALOG)

    def _setting(self, slot: str, tokens: Sequence[Token]) -> None:
        options = self._vocabulary.settings()
        if slot == "setting":
            self._strings([Name(o.key, o.detail) for o in options], CandidateKind.OPTION)
            return
        key = tokens[-2].text
        choices = next((o.choices for o in options if o.key == key), ())
        self._strings([Name(c) for c in choices], CandidateKind.VALUE)

    def _columns_before(self, tokens: Sequence[Token]) -> Sequence[Name]:
        """The columns of the table that INSERT INTO names."""
        if word(tokens[0]) != "INSERT":
            return ()
        path = tokens[2 : name_end(tokens, 2)]
        return self._vocabulary.columns(tuple(t.text for t in path if word(t) != "."))

    def _in_changes(self, slot: str, before: Sequence[Token], content: Sequence[Token]) -> None:
        """`column = value, … [WHERE condition]` of UPDATE, or the condition of DELETE."""
        start = 1 if word(before[0]) == "UPDATE" else 2
        end = name_end(before, start)
        alias = next(
            (t.text for t in before[end:] if is_name(t) and word(t) not in ("AS", "SET", "WHERE")), ""
        )
        source = Source(tuple(t.text for t in before[start:end] if word(t) != "."), alias=alias)
        scope = Scope((source,), {})
        words = [word(token) for token in content]
        is_value = slot == "condition" or "WHERE" in words
        last = words[max((i + 1 for i, w in enumerate(words) if w == ","), default=0) :]
        if is_value or "=" in last:
            self._operands(scope)
            if not is_value and last[-1] != "=":
                self._keywords(["WHERE"])
        else:
            self._add(columns_of(source, {}, self._vocabulary), CandidateKind.COLUMN)

    # -- CREATE TABLE ---------------------------------------------------------------------------------

    def _in_definitions(self, inner: Sequence[Token]) -> None:
        self._columns = defined_columns(inner)
        self._wanted(wanted_in_definitions(inner), Scope((), {}))

    def _in_options(self, inner: Sequence[Token], tokens: Sequence[Token]) -> None:
        columns = [c.text for c in defined_columns(_first_group(tokens))]
        given = option_pairs([*inner, *self._cursor.after])
        options = self._vocabulary.table_options(given)
        self._pairs(inner, options, columns)

    def _in_hint(self, tokens: Sequence[Token]) -> bool:
        """`table /*+ OPTIONS(…`: the options of that table's connector are not known here, so those of all are offered."""
        start = next(
            (i for i in range(len(tokens) - 1, -1, -1) if tokens[i].token_type is TokenType.HINT), None
        )
        if start is None or any(t.token_type is TokenType.BLOCK_END for t in tokens[start:]):
            return False
        if len(tokens) == start + 1:
            self._keywords(["OPTIONS"])
        elif len(tokens) > start + 2:
            self._pairs(tokens[start + 3 :], self._vocabulary.table_options({}), ())
        return True

    def _pairs(self, inner: Sequence[Token], options: Sequence[OptionName], columns: Sequence[str]) -> None:
        place = option_place(inner)
        if place.symbols:
            return
        if place.key is None:
            given = option_pairs([*inner, *self._cursor.after])
            keys = option_keys(options, given, columns)
            self._strings([Name(o.key, o.detail) for o in keys], CandidateKind.OPTION)
            return
        kinds = {"connector": CandidateKind.CONNECTOR, **dict.fromkeys(FORMAT_KEYS, CandidateKind.FORMAT)}
        kind = kinds.get(place.key, CandidateKind.VALUE)
        choices = option_choices(place.key, options, columns, self._vocabulary)
        self._strings([Name(c) for c in choices], kind)

    # -- queries ------------------------------------------------------------------------------------

    def _in_query(self, tokens: Sequence[Token]) -> None:
        place = place_in_tree(tokens, self._cursor.after)
        scope = scope_at(place)
        self._wanted(wanted_at(place), scope)

    def _wanted(self, wanted: Wanted, scope: Scope) -> None:
        qualifiers = self._cursor.qualifiers
        if wanted.is_table:
            self._relations("relation")
            self._file_paths()
            if not qualifiers:
                self._names(scope.named_queries, CandidateKind.SOURCE)
        if wanted.time_of is not None:
            source = dataclasses.replace(windowed_source(wanted.time_of), is_windowed=False)
            self._add(columns_of(source, scope.named_queries, self._vocabulary), CandidateKind.COLUMN)
        if wanted.is_operand:
            self._operands(scope)
        if qualifiers:
            return
        self._keywords(wanted.keywords)
        for words, kind in ((TYPES, CandidateKind.TYPE), (UNITS, CandidateKind.KEYWORD)):
            if wanted.has_types if kind is CandidateKind.TYPE else wanted.has_units:
                for text in words:
                    self._propose(self._cased(text), kind, "")

    def _operands(self, scope: Scope) -> None:
        qualifiers = self._cursor.qualifiers
        for source in scope.sources:
            if qualifiers and source.name.lower() != qualifiers[-1].lower():
                continue
            columns = columns_of(source, scope.named_queries, self._vocabulary)
            self._add([Name(c.text, c.detail or source.name) for c in columns], CandidateKind.COLUMN)
        if qualifiers:
            return
        self._add(self._columns, CandidateKind.COLUMN)
        self._names([s.name for s in scope.sources if s.name], CandidateKind.SOURCE)
        if self._cursor.prefix:
            for function in self._vocabulary.functions():
                self._propose(self._cased(function.text), CandidateKind.FUNCTION, function.detail)

    # -- proposals ----------------------------------------------------------------------------------

    def _keywords(self, words: Iterable[str]) -> None:
        if not self._cursor.qualifiers:
            for text in words:
                if text[0].isalpha():
                    self._propose(self._cased(text), CandidateKind.KEYWORD, "")

    def _cased(self, text: str) -> str:
        """Lower case where the user writes so."""
        prefix = self._cursor.prefix
        if prefix:
            return text.lower() if prefix.islower() else text
        last = next((t.text for t in reversed(self._cursor.before) if word(t) in RESERVED and is_word(t)), "")
        return text.lower() if last.islower() else text

    def _names(self, names: Iterable[str], kind: CandidateKind) -> None:
        for name in names:
            self._propose(quoted(name), kind, kind.value)

    def _add(self, names: Iterable[Name], kind: CandidateKind) -> None:
        for name in names:
            self._propose(quoted(name.text), kind, name.detail)

    def _strings(self, names: Iterable[Name], kind: CandidateKind) -> None:
        closing = "" if self._cursor.is_closed else "'"
        for name in names:
            if self._cursor.quote == "'" or not self._cursor.prefix:
                inner = name.text.replace("'", "''")
                self._propose(f"'{inner}{closing}", kind, name.detail)

    def _file_paths(self) -> None:
        """Paths where a quote is open. That of a directory stays open: a name in it follows."""
        if self._cursor.quote != "'":
            return
        for name in self._vocabulary.files(self._cursor.prefix):
            closing = "" if self._cursor.is_closed or name.text.endswith("/") else "'"
            inner = name.text.replace("'", "''")
            self._propose(f"'{inner}{closing}", CandidateKind.FILE, name.detail)

    def _propose(self, text: str, kind: CandidateKind, detail: str) -> None:
        self._proposals.append(_Proposal(text, kind, detail))

    def candidates(self) -> tuple[Candidate, ...]:
        """The proposals that match the prefix: those that begin with it, then those with a part that does."""
        ranked: dict[str, tuple[int, int, int, Candidate]] = {}
        for index, p in enumerate(self._proposals):
            rank = _rank(p, self._cursor)
            if rank is not None and p.text not in ranked:
                candidate = Candidate(self._fitted(p.text), p.kind, p.detail, self._cursor.start)
                ranked[p.text] = (rank, _ORDER[p.kind], index, candidate)
        best = sorted(ranked.values(), key=lambda r: r[:3])
        return tuple(candidate for *_, candidate in best[:CANDIDATES_MAX])

    def _fitted(self, text: str) -> str:
        """In an open backtick a name ends with one, unless one follows already."""
        if self._cursor.quote != "`":
            return text
        bare = text if text.startswith("`") else f"`{text}`"
        return bare[:-1] if self._cursor.is_closed else bare


def _rank(proposal: _Proposal, cursor: Cursor) -> int | None:
    """0: begins with the prefix, 1: one of its parts does; None: no match."""
    is_string = proposal.text.startswith("'")
    if (cursor.quote == "'") != is_string and cursor.quote:
        return None
    is_name = proposal.kind not in (CandidateKind.KEYWORD, CandidateKind.TYPE, CandidateKind.FUNCTION)
    if cursor.quote == "`" and not is_name:
        return None
    text, prefix = proposal.text.strip("'`").lower(), cursor.prefix.lower()
    if text.startswith(prefix):
        return None if text == prefix and not is_name else 0
    parts = text.replace("-", ".").replace("_", ".").split(".")
    return 1 if is_name and any(part.startswith(prefix) for part in parts[1:]) else None


def quoted(name: str) -> str:
    """A name as SQL writes it: in backticks when it is reserved or no plain word.

    >>> quoted("order"), quoted("order_id")
    ('`order`', 'order_id')
    """
    is_plain = (
        name.replace("_", "a").replace("$", "a").isalnum()
        and name[0] not in "$0123456789"
        and name.upper() not in RESERVED
    )
    return name if is_plain else f"`{name.replace('`', '``')}`"


def _first_group(tokens: Sequence[Token]) -> Sequence[Token]:
    """What stands between the first brackets."""
    depth, start = 0, None
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
            start = i + 1 if start is None else start
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if not depth and start is not None:
                return tokens[start:i]
    return ()


_CATALOG_OPTIONS = (
    OptionName("type", "the kind of catalog", ("generic_in_memory", "file")),
    OptionName("path", "the directory of a catalog of type file"),
    OptionName("default-database", "its database at first"),
)
