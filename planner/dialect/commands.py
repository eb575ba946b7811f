"""The grammar of SET, RESET, SHOW, DESCRIBE, EXPLAIN, INSERT and statement sets, by their first words."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.dialect import ddl, expressions, queries, relations
from planner.dialect.ddl import extent, unsupported
from planner.dialect.options import read_option
from planner.dialect.statements import (
    Describe,
    Explain,
    Identifier,
    Insert,
    Query,
    ResetOption,
    SetOption,
    Show,
    ShowKind,
    Statement,
    StatementSet,
)
from planner.dialect.tokens import Cursor, Token, TokenKind
from sqlstream.errors import Span, UserError, did_you_mean

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_UNBUILT = (
    *("ADD", "ALTER", "ANALYZE", "CALL", "COMPILE", "DELETE", "LOAD", "MERGE"),
    *("REMOVE", "STOP", "TRUNCATE", "UNLOAD", "UPDATE", "UPSERT", "USE"),
)


def statement(cursor: Cursor) -> Statement:
    """Read one statement to its end."""
    token = cursor.token
    reader = _READERS.get(token.upper) if token.kind is not TokenKind.QUOTED else None
    if reader is not None:
        result = reader(cursor)
    elif cursor.at("("):
        result = _query(cursor)
    elif token.upper in _UNBUILT:
        cursor.advance()
        raise unsupported(cursor, token)
    else:
        hint = did_you_mean(token.text, sorted(_READERS)) if token.kind is TokenKind.WORD else ""
        raise cursor.unexpected(
            "a statement", hint or "a statement begins with a word such as SELECT, INSERT or CREATE"
        )
    cursor.expect_end()
    return result


def _query(cursor: Cursor) -> Query:
    first = cursor.token
    query = queries.query(cursor)
    return Query(*extent(cursor, first), query=query)


def _insert(cursor: Cursor) -> Insert:
    first = cursor.expect("INSERT")
    if cursor.at("OVERWRITE"):
        token = cursor.advance()
        raise cursor.refusal("INSERT OVERWRITE is not supported yet", token, "write INSERT INTO")
    cursor.expect("INTO")
    target = cursor.qualified_name("a table name")
    hints = relations.table_hint(cursor)
    partition = _partition(cursor) if cursor.at("PARTITION") else ()
    columns: tuple[Identifier, ...] = ()
    if cursor.at("(") and cursor.peek(1).upper not in ("SELECT", "WITH", "VALUES", "("):
        columns = ddl.column_names(cursor)
    query = queries.query(cursor)
    return Insert(
        *extent(cursor, first), target=target, columns=columns, query=query, partition=partition, hints=hints
    )


def _partition(cursor: Cursor) -> tuple[tuple[Identifier, exp.Expression], ...]:
    cursor.expect("PARTITION")
    cursor.expect("(")
    values: list[tuple[Identifier, exp.Expression]] = []
    while not values or cursor.accept(","):
        key = cursor.simple_name("a partition column")
        cursor.expect("=", hint="give every partition column listed here a value")
        values.append((key, expressions.operand(cursor)))
    cursor.expect(")")
    return tuple(values)


def _execute(cursor: Cursor) -> Statement:
    first = cursor.expect("EXECUTE")
    if cursor.at("STATEMENT"):
        return _statement_set(cursor, first)
    if cursor.at("INSERT"):
        insert = _insert(cursor)
        return Insert(
            *extent(cursor, first),
            target=insert.target,
            columns=insert.columns,
            query=insert.query,
            partition=insert.partition,
            hints=insert.hints,
        )
    if queries.at_query(cursor):
        query = queries.query(cursor)
        return Query(*extent(cursor, first), query=query)
    raise cursor.unexpected("STATEMENT SET, INSERT or a query")


def _statement_set(cursor: Cursor, first: Token) -> StatementSet:
    """Read from STATEMENT on: `STATEMENT SET BEGIN … END`."""
    cursor.expect("STATEMENT", "SET", "BEGIN")
    return _set_body(cursor, first)


def _begin(cursor: Cursor) -> StatementSet:
    first = cursor.expect("BEGIN")
    cursor.expect("STATEMENT", "SET", ";")
    return _set_body(cursor, first)


def _set_body(cursor: Cursor, first: Token) -> StatementSet:
    inserts: list[Insert] = []
    while not inserts or not cursor.at("END"):
        cursor.accept("EXECUTE")
        if not cursor.at("INSERT"):
            raise cursor.unexpected(
                "INSERT INTO", "a statement set holds only INSERT INTO statements, and ends with END"
            )
        inserts.append(_insert(cursor))
        cursor.expect(";", hint="end every INSERT of a statement set with a semicolon")
    cursor.expect("END")
    return StatementSet(*extent(cursor, first), inserts=tuple(inserts))


def _explain(cursor: Cursor) -> Explain:
    first = cursor.expect("EXPLAIN")
    details: list[str] = []
    if not cursor.accept("PLAN", "FOR"):
        while detail := cursor.accept_any(*_DETAILS):
            details.append(detail)
            if not cursor.accept(","):
                break
    target = _explained(cursor)
    return Explain(*extent(cursor, first), target=target, details=tuple(dict.fromkeys(details)))


def _explained(cursor: Cursor) -> Query | Insert | StatementSet:
    first = cursor.token
    if cursor.at("INSERT"):
        return _insert(cursor)
    if cursor.accept("EXECUTE") or cursor.at("STATEMENT"):
        return _insert(cursor) if cursor.at("INSERT") else _statement_set(cursor, first)
    if cursor.at("BEGIN"):
        return _begin(cursor)
    if queries.at_query(cursor) or cursor.at("("):
        return _query(cursor)
    raise cursor.unexpected("a query, INSERT or STATEMENT SET", "details are " + ", ".join(_DETAILS))


def _set(cursor: Cursor) -> SetOption:
    first = cursor.expect("SET")
    if cursor.token.kind is TokenKind.END:
        return SetOption(*extent(cursor, first), option=None)
    if cursor.token.kind is not TokenKind.STRING:
        start = cursor.token.start
        while not cursor.at("=") and not cursor.at_end():
            cursor.advance()
        span = Span(start, max(cursor.previous_end, start))
        key = cursor.source(span.start, span.end).strip("`")
        hint = f"write SET '{key}' = '{_bare_value(cursor)}'"
        raise UserError("SS1001", "the key and the value of SET must be quoted", span=span, hint=hint)
    option = read_option(cursor)
    return SetOption(*extent(cursor, first), option=option)


def _bare_value(cursor: Cursor) -> str:
    """What stands after the equals sign, without its quotes."""
    if not cursor.accept("=") or cursor.at_end():
        return "value"
    if cursor.token.kind is TokenKind.STRING:
        return cursor.token.text
    start = cursor.token.start
    while not cursor.at_end():
        cursor.advance()
    return cursor.source(start, cursor.previous_end)


def _reset(cursor: Cursor) -> ResetOption:
    first = cursor.expect("RESET")
    if cursor.token.kind is TokenKind.END:
        return ResetOption(*extent(cursor, first), key=None)
    key = cursor.string("an option key in single quotes", "quote the key: RESET 'key'").text
    return ResetOption(*extent(cursor, first), key=key)


def _show(cursor: Cursor) -> Show:
    first = cursor.expect("SHOW")
    kind = _show_kind(cursor, first)
    name = None
    if kind is ShowKind.COLUMNS:
        if cursor.accept_any("FROM", "IN") is None:
            raise cursor.unexpected("FROM and a table name")
        name = cursor.qualified_name("a table name")
    elif kind in (ShowKind.CREATE_TABLE, ShowKind.CREATE_VIEW):
        name = cursor.qualified_name("a name")
    elif cursor.at_any("FROM", "IN"):
        token = cursor.advance()
        raise cursor.refusal(f"SHOW {kind.value} {token.upper} is not supported yet", token, "leave it out")
    like, is_ilike, is_negated = None, False, False
    if kind in _FILTERED and (cursor.at_any("LIKE", "ILIKE") or cursor.at("NOT")):
        is_negated = cursor.accept("NOT")
        word = cursor.accept_any("LIKE", "ILIKE")
        if word is None:
            raise cursor.unexpected("LIKE or ILIKE")
        is_ilike = word == "ILIKE"
        like = cursor.string("a pattern in single quotes").text
    return Show(
        *extent(cursor, first), kind=kind, name=name, like=like, is_ilike=is_ilike, is_negated=is_negated
    )


_FILTERED = (
    *(ShowKind.TABLES, ShowKind.VIEWS, ShowKind.COLUMNS),
    *(ShowKind.FUNCTIONS, ShowKind.CATALOGS, ShowKind.DATABASES),
)


def _show_kind(cursor: Cursor, first: Token) -> ShowKind:
    for kind in ShowKind:
        if cursor.accept(*kind.value.split()):
            return kind
    raise unsupported(cursor, first)


def _describe(cursor: Cursor) -> Describe:
    first = cursor.advance()
    is_extended = cursor.at("EXTENDED") and cursor.peek(1).kind is not TokenKind.END
    if is_extended:
        cursor.advance()
    if cursor.at_any("CATALOG", "DATABASE", "FUNCTION", "JOB", "MODEL"):
        following = cursor.peek(1).kind
        if following in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING):
            raise unsupported(cursor, first)
    name = cursor.qualified_name("a table name")
    return Describe(*extent(cursor, first), name=name, is_extended=is_extended)


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "SELECT": _query,
    "WITH": _query,
    "VALUES": _query,
    "INSERT": _insert,
    "EXECUTE": _execute,
    "BEGIN": _begin,
    "CREATE": ddl.create,
    "DROP": ddl.drop,
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
}
