"""The grammar of what ALTER TABLE changes of columns, keys and the watermark."""

from __future__ import annotations

from sqlstream.errors import Span
from sqlstream.planner.dialect.create_table import TableBody, column_names, table_element
from sqlstream.planner.dialect.data_types import is_type_name
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import (
    DropColumn,
    DropPrimaryKey,
    DropWatermark,
    Identifier,
    PutColumn,
    PutPrimaryKey,
    PutWatermark,
    RenameColumn,
    TableChange,
)
from sqlstream.planner.dialect.tokens import word


def table_changes(parser: QueryParser) -> tuple[TableChange, ...] | None:
    """Read ADD, MODIFY, DROP or RENAME and what follows; None for another word."""
    if parser.at_any("ADD", "MODIFY"):
        return _put(parser)
    if parser.accept("DROP"):
        return _drop(parser)
    if parser.accept("RENAME"):
        _refuse_column_word(parser, word(parser.peek(1)) == "TO")
        name = parser.simple_name("a column name")
        parser.expect("TO")
        return (RenameColumn(name, parser.simple_name("the other name")),)
    return None


def _refuse_column_word(parser: QueryParser, is_name: bool) -> None:
    """SS1003 for the word COLUMN, which other dialects write here, where it is not the name of a column."""
    if parser.at("COLUMN") and not is_name:
        raise parser.refusal("ALTER TABLE takes no word COLUMN", parser.advance(), "leave COLUMN out")


def _put(parser: QueryParser) -> tuple[TableChange, ...]:
    is_new = word(parser.advance()) == "ADD"
    if parser.at_any("PARTITION", "DISTRIBUTION") or parser.at("IF", "NOT", "EXISTS"):
        raise _partition_refusal(parser)
    if not parser.accept("("):
        return _element(parser, is_new)
    changes: list[TableChange] = []
    while not changes or parser.accept(","):
        changes += _element(parser, is_new)
    parser.expect(")")
    return tuple(changes)


def _element(parser: QueryParser, is_new: bool) -> tuple[TableChange, ...]:
    behind = word(parser.peek(1))
    _refuse_column_word(parser, behind == "AS" or is_type_name(behind))
    body = TableBody()
    table_element(parser, body)
    if body.watermark is not None:
        return (PutWatermark(body.watermark, is_new),)
    key = (PutPrimaryKey(body.primary_key, is_new, body.key_name),) if body.primary_key else ()
    if not body.columns:
        if body.names:
            raise parser.unexpected("the type of the column")
        return key
    is_first = parser.accept("FIRST")
    after = None
    if not is_first and parser.accept("AFTER"):
        after = parser.simple_name("the column that it stands behind")
    return (PutColumn(body.columns[0], is_new, is_first, after), *key)


def _drop(parser: QueryParser) -> tuple[TableChange, ...]:
    token = parser.token
    if parser.at_any("PARTITION", "DISTRIBUTION") or parser.at("IF", "EXISTS"):
        raise _partition_refusal(parser, "delete its rows: DELETE FROM table WHERE column = value")
    if parser.accept("PRIMARY", "KEY"):
        return (DropPrimaryKey(Span(token.start, parser.previous_end)),)
    if parser.at("CONSTRAINT") and word(parser.peek(2)) in ("", ";"):
        parser.advance()
        name = parser.name("the name of the constraint").name
        return (DropPrimaryKey(Span(token.start, parser.previous_end), name),)
    if parser.at("WATERMARK") and word(parser.peek(1)) in ("", ";"):
        parser.advance()
        return (DropWatermark(Span(token.start, parser.previous_end)),)
    _refuse_column_word(parser, word(parser.peek(1)) in ("", ";"))
    names: tuple[Identifier, ...]
    names = column_names(parser) if parser.at("(") else (parser.simple_name("a column name"),)
    return tuple(DropColumn(name) for name in names)


_DIRECTORIES = "partitions of files are the directories that are there: INSERT INTO makes them"


def _partition_refusal(parser: QueryParser, hint: str = _DIRECTORIES) -> Exception:
    token = parser.advance()
    return parser.refusal("partitions and buckets are not declared one by one", token, hint)
