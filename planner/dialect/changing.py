"""The grammar of UPDATE, DELETE and TRUNCATE TABLE."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.planner.dialect.queries import QueryParser, extent
from sqlstream.planner.dialect.statements import Assignment, Delete, Identifier, Truncate, Update
from sqlstream.planner.dialect.tokens import word


def changing(parser: QueryParser) -> Update | Delete | Truncate:
    """Read whichever of them comes."""
    if parser.at("UPDATE"):
        return update(parser)
    return delete(parser) if parser.at("DELETE") else truncate(parser)


def update(parser: QueryParser) -> Update:
    """Read UPDATE target [[AS] alias] SET column = value, … [WHERE condition]."""
    first = parser.expect("UPDATE")
    _refuse_path(parser)
    target = parser.qualified_name("a table name")
    hints = parser.table_hint()
    alias = _alias(parser)
    parser.expect("SET", hint="write UPDATE table SET column = value WHERE condition")
    assignments: list[Assignment] = []
    while not assignments or parser.accept(","):
        column = parser.simple_name("a column name")
        parser.expect("=", hint="name a column of the table itself, without the table's name before it")
        assignments.append(Assignment(column, parser.value()))
    condition = parser.value() if parser.accept("WHERE") else None
    return Update(
        *extent(parser, first),
        target=target,
        assignments=tuple(assignments),
        condition=condition,
        alias=alias,
        hints=hints,
    )


def delete(parser: QueryParser) -> Delete:
    """Read DELETE FROM target [[AS] alias] [WHERE condition]."""
    first = parser.expect("DELETE")
    parser.expect("FROM", hint="write DELETE FROM table WHERE condition")
    _refuse_path(parser)
    target = parser.qualified_name("a table name")
    hints = parser.table_hint()
    alias = _alias(parser)
    condition = parser.value() if parser.accept("WHERE") else None
    return Delete(*extent(parser, first), target=target, condition=condition, alias=alias, hints=hints)


def truncate(parser: QueryParser) -> Truncate:
    """Read TRUNCATE TABLE target."""
    first = parser.expect("TRUNCATE")
    parser.expect("TABLE", hint="write TRUNCATE TABLE table")
    _refuse_path(parser)
    return Truncate(*extent(parser, first), target=parser.qualified_name("a table name"))


def _alias(parser: QueryParser) -> Identifier | None:
    if parser.accept("AS") or (parser.at_name() and word(parser.token) not in ("SET", "WHERE")):
        return parser.simple_name("an alias")
    return None


def _refuse_path(parser: QueryParser) -> None:
    if parser.at_string():
        raise _path_refusal(parser)


def _path_refusal(parser: QueryParser) -> UserError:
    token = parser.advance()
    hint = "name a table: CREATE TABLE t (…) WITH ('connector' = 'filesystem', 'path' = '…', 'format' = '…')"
    return parser.refusal("a path in quotes can be read, not changed", token, hint)
