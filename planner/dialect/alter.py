"""The grammar of ALTER of tables, views, databases and catalogs."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.errors import Span
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.catalogs import alter_catalog, alter_database
from sqlstream.planner.dialect.create_table import TableBody, column_names, table_element
from sqlstream.planner.dialect.data_types import is_type_name
from sqlstream.planner.dialect.ddl import alter_function, unsupported
from sqlstream.planner.dialect.models import alter_model
from sqlstream.planner.dialect.queries import QueryParser, extent
from sqlstream.planner.dialect.reading import option_keys, option_list
from sqlstream.planner.dialect.tokens import word


def alter(
    parser: QueryParser,
) -> (
    statements.RenameObject
    | statements.AlterTableOptions
    | statements.AlterTable
    | statements.AlterView
    | statements.AlterDatabase
    | statements.AlterCatalog
    | statements.AlterFunction
    | statements.AlterModel
):
    """Read ALTER TABLE | VIEW | MODEL | DATABASE | CATALOG, or ALTER [TEMPORARY [SYSTEM]] FUNCTION."""
    first = parser.expect("ALTER")
    if parser.accept("TABLE"):
        return _alter_table(parser, first)
    if parser.accept("VIEW"):
        return _alter_view(parser, first)
    if parser.accept("MODEL"):
        return alter_model(parser, first)
    if parser.accept("DATABASE"):
        return alter_database(parser, first)
    if parser.accept("CATALOG"):
        return alter_catalog(parser, first)
    for words in (("FUNCTION",), ("TEMPORARY", "FUNCTION"), ("TEMPORARY", "SYSTEM", "FUNCTION")):
        if parser.accept(*words):
            return alter_function(parser, first, len(words) > 1, len(words) > 2)
    raise unsupported(parser, first)


def _alter_table(
    parser: QueryParser, first: Token
) -> statements.RenameObject | statements.AlterTableOptions | statements.AlterTable:
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a table name")
    if parser.at("RENAME", "TO"):
        return _rename(parser, first, name, is_view=False, if_exists=if_exists)
    if parser.accept("SET"):
        options = option_list(parser)
        return statements.AlterTableOptions(
            *extent(parser, first), name=name, options=options, if_exists=if_exists
        )
    if parser.accept("RESET"):
        keys = option_keys(parser)
        return statements.AlterTableOptions(
            *extent(parser, first), name=name, reset=keys, if_exists=if_exists
        )
    changes = table_changes(parser)
    if changes is not None:
        return statements.AlterTable(*extent(parser, first), name=name, changes=changes, if_exists=if_exists)
    hint = "write MODIFY column type" if parser.at_any("ALTER", "CHANGE") else ""
    raise parser.unexpected("ADD, MODIFY, DROP, RENAME, SET or RESET", hint)


def _alter_view(parser: QueryParser, first: Token) -> statements.RenameObject | statements.AlterView:
    name = parser.qualified_name("a view name")
    if parser.at("RENAME"):
        return _rename(parser, first, name, is_view=True, if_exists=False)
    if not parser.accept("AS"):
        raise parser.unexpected("AS and a query, or RENAME TO")
    start = parser.token.start
    query = parser.query()
    text = parser.source(start, parser.previous_end)
    return statements.AlterView(*extent(parser, first), name=name, query=query, query_text=text)


def _rename(
    parser: QueryParser, first: Token, name: statements.Identifier, is_view: bool, if_exists: bool
) -> statements.RenameObject:
    parser.expect("RENAME", "TO")
    target = parser.qualified_name("the other name")
    return statements.RenameObject(
        *extent(parser, first), name=name, is_view=is_view, target=target, if_exists=if_exists
    )


# The grammar of what ALTER TABLE changes of columns, keys and the watermark.


def table_changes(parser: QueryParser) -> tuple[statements.TableChange, ...] | None:
    """Read ADD, MODIFY, DROP or RENAME and what follows; None for another word."""
    if parser.at_any("ADD", "MODIFY"):
        return _put(parser)
    if parser.accept("DROP"):
        return _drop(parser)
    if parser.accept("RENAME"):
        _refuse_column_word(parser, word(parser.peek(1)) == "TO")
        name = parser.simple_name("a column name")
        parser.expect("TO")
        return (statements.RenameColumn(name, parser.simple_name("the other name")),)
    return None


def _refuse_column_word(parser: QueryParser, is_name: bool) -> None:
    """SS1003 for the word COLUMN, which other dialects write here, where it is not the name of a column."""
    if parser.at("COLUMN") and not is_name:
        raise parser.refusal("ALTER TABLE takes no word COLUMN", parser.advance(), "leave COLUMN out")


def _put(parser: QueryParser) -> tuple[statements.TableChange, ...]:
    is_new = word(parser.advance()) == "ADD"
    if parser.at_any("PARTITION", "DISTRIBUTION") or parser.at("IF", "NOT", "EXISTS"):
        raise _partition_refusal(parser)
    if not parser.accept("("):
        return _element(parser, is_new)
    changes: list[statements.TableChange] = []
    while not changes or parser.accept(","):
        changes += _element(parser, is_new)
    parser.expect(")")
    return tuple(changes)


def _element(parser: QueryParser, is_new: bool) -> tuple[statements.TableChange, ...]:
    behind = word(parser.peek(1))
    _refuse_column_word(parser, behind == "AS" or is_type_name(behind))
    body = TableBody()
    table_element(parser, body)
    if body.watermark is not None:
        return (statements.PutWatermark(body.watermark, is_new),)
    key = (statements.PutPrimaryKey(body.primary_key, is_new, body.key_name),) if body.primary_key else ()
    if not body.columns:
        if body.names:
            raise parser.unexpected("the type of the column")
        return key
    is_first = parser.accept("FIRST")
    after = None
    if not is_first and parser.accept("AFTER"):
        after = parser.simple_name("the column that it stands behind")
    return (statements.PutColumn(body.columns[0], is_new, is_first, after), *key)


def _drop(parser: QueryParser) -> tuple[statements.TableChange, ...]:
    token = parser.token
    if parser.at_any("PARTITION", "DISTRIBUTION") or parser.at("IF", "EXISTS"):
        hint = "delete its rows: DELETE FROM table WHERE column = value"
        raise parser.refusal(
            "partitions are not dropped: one is there while it has files", parser.advance(), hint
        )
    if parser.accept("PRIMARY", "KEY"):
        return (statements.DropPrimaryKey(Span(token.start, parser.previous_end)),)
    if parser.at("CONSTRAINT") and word(parser.peek(2)) in ("", ";"):
        parser.advance()
        name = parser.name("the name of the constraint").name
        return (statements.DropPrimaryKey(Span(token.start, parser.previous_end), name),)
    if parser.at("WATERMARK") and word(parser.peek(1)) in ("", ";"):
        parser.advance()
        return (statements.DropWatermark(Span(token.start, parser.previous_end)),)
    _refuse_column_word(parser, word(parser.peek(1)) in ("", ";"))
    names: tuple[statements.Identifier, ...]
    names = column_names(parser) if parser.at("(") else (parser.simple_name("a column name"),)
    return tuple(statements.DropColumn(name) for name in names)


_DIRECTORIES = "partitions of files are the directories that are there: INSERT INTO makes them"


def _partition_refusal(parser: QueryParser) -> Exception:
    token = parser.advance()
    return parser.refusal("partitions and buckets are not declared one by one", token, _DIRECTORIES)
