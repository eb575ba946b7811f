"""The grammar of CREATE and DROP, with that of tables and views."""

from __future__ import annotations

import dataclasses

from sqlglot import Token, TokenType

from planner.dialect.catalogs import create_catalog, create_database, drop_catalog, drop_database
from planner.dialect.data_types import data_type
from planner.dialect.extent import extent, read_comment
from planner.dialect.options import option_list
from planner.dialect.queries import QueryParser
from planner.dialect.statements import (
    ColumnDef,
    ColumnKind,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateView,
    DropCatalog,
    DropDatabase,
    DropObject,
    Identifier,
    LikeFiles,
    Option,
    WatermarkDef,
)
from planner.dialect.tokens import span, word
from sqlstream.errors import Span, UserError

_NOT_ENFORCED_DETAIL = (
    "ENFORCED / NOT ENFORCED controls if the constraint checks are performed on the incoming / outgoing "
    "data; the data is not owned here, therefore the only supported mode is NOT ENFORCED"
)


@dataclasses.dataclass
class _TableBody:
    columns: list[ColumnDef] = dataclasses.field(default_factory=list)
    watermark: WatermarkDef | None = None
    primary_key: tuple[Identifier, ...] = ()


def create(parser: QueryParser) -> CreateTable | CreateView | CreateDatabase | CreateCatalog:
    """Read CREATE [TEMPORARY] TABLE | VIEW, or CREATE DATABASE | CATALOG."""
    first = parser.expect("CREATE")
    if parser.at("OR", "REPLACE"):
        parser.advance()
        parser.advance()
        raise parser.refusal(
            "CREATE OR REPLACE is not supported", first, "drop the object first, or use IF NOT EXISTS"
        )
    is_temporary = parser.accept("TEMPORARY")
    if is_temporary and parser.at("SYSTEM"):
        raise unsupported(parser, first)
    if parser.accept("TABLE"):
        return _create_table(parser, first, is_temporary)
    if parser.accept("VIEW"):
        return _create_view(parser, first, is_temporary)
    if not is_temporary and parser.accept("DATABASE"):
        return create_database(parser, first)
    if not is_temporary and parser.accept("CATALOG"):
        return create_catalog(parser, first)
    raise unsupported(parser, first)


def unsupported(parser: QueryParser, first: Token) -> UserError:
    """SS1002, to be raised, for a statement of Flink's that is not built: named by its first words."""
    words = [word(first)]
    place = span(first)
    if word(first) in ("ALTER", "CREATE", "DROP", "SHOW", "DESCRIBE", "DESC"):
        while word(parser.token) in ("TEMPORARY", "SYSTEM", "MATERIALIZED", "FULL", "USER"):
            words.append(word(parser.advance()))
        if word(parser.token).isidentifier():
            words.append(word(parser.advance()))
        place = Span(first.start, max(first.end + 1, parser.previous_end))
    hint = (
        "supported are CREATE, ALTER and DROP of TABLE, VIEW and DATABASE, CREATE and DROP of CATALOG, USE, "
        "INSERT INTO, EXECUTE STATEMENT SET, SELECT, EXPLAIN, SET, RESET, SHOW and DESCRIBE"
    )
    return UserError("SS1002", f'statement "{" ".join(words)}" is not supported yet', span=place, hint=hint)


def _create_table(parser: QueryParser, first: Token, is_temporary: bool) -> CreateTable:
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a table name")
    body = _table_body(parser)
    comment = read_comment(parser)
    like = _like_files(parser)
    _refuse_clauses(parser)
    partition_keys: tuple[Identifier, ...] = ()
    if parser.accept("PARTITIONED"):
        parser.expect("BY")
        partition_keys = column_names(parser)
    options: tuple[Option, ...] = option_list(parser) if parser.accept("WITH") else ()
    like = like or _like_files(parser)
    _refuse_clauses(parser)
    return CreateTable(
        *extent(parser, first),
        name=name,
        columns=tuple(body.columns),
        watermark=body.watermark,
        primary_key=body.primary_key,
        partition_keys=partition_keys,
        options=options,
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
        like=like,
    )


def _like_files(parser: QueryParser) -> LikeFiles | None:
    """Read LIKE 'path', before or behind the options."""
    if not parser.at("LIKE") or parser.peek(1).token_type is not TokenType.STRING:
        return None
    parser.advance()
    token = parser.string()
    return LikeFiles(token.text, span(token))


def _refuse_clauses(parser: QueryParser) -> None:
    """Refuse the clauses of Flink around WITH that are not built."""
    if parser.at_any("DISTRIBUTED", "AS", "LIKE"):
        token = parser.advance()
        hint = "create the table with its columns, and fill it with INSERT INTO"
        what = "LIKE with a table" if word(token) == "LIKE" else word(token)
        if word(token) == "LIKE":
            hint = "name files, as in LIKE 'clicks.csv', or create the table with its columns"
        raise parser.refusal(f"CREATE TABLE … {what} is not supported yet", token, hint)


def _table_body(parser: QueryParser) -> _TableBody:
    body = _TableBody()
    if not parser.accept("("):
        return body
    if parser.accept(")"):
        return body
    while True:
        _table_element(parser, body)
        if not parser.accept(","):
            break
    parser.expect(")", hint="put a comma between two columns" if parser.at_name() else "")
    return body


def _table_element(parser: QueryParser, body: _TableBody) -> None:
    token = parser.token
    if parser.at("WATERMARK", "FOR"):
        watermark = _watermark(parser)
        if body.watermark is not None:
            hint = "keep one of the two"
            raise UserError("SS1001", "a table has at most one watermark", span=watermark.span, hint=hint)
        body.watermark = watermark
        return
    if parser.at("CONSTRAINT") and word(parser.peek(2)) in ("PRIMARY", "UNIQUE"):
        parser.advance()
        parser.name("a constraint name")
    if parser.at("UNIQUE", "("):
        raise _unique_refusal(parser)
    if parser.at("PRIMARY", "KEY"):
        parser.expect("PRIMARY", "KEY")
        keys = column_names(parser)
        _not_enforced(parser, token)
        _set_primary_key(body, keys, Span(token.start, parser.previous_end))
        return
    column = _column(parser)
    body.columns.append(column)
    if column.is_primary_key:
        _set_primary_key(body, (Identifier((column.name,), column.span),), column.span)


def _set_primary_key(body: _TableBody, keys: tuple[Identifier, ...], span: Span) -> None:
    if body.primary_key:
        hint = "keep one of the two; a key of several columns is PRIMARY KEY (a, b) NOT ENFORCED"
        raise UserError("SS1001", "a table has at most one primary key", span=span, hint=hint)
    body.primary_key = keys


def _unique_refusal(parser: QueryParser) -> UserError:
    token = parser.advance()
    hint = "declare PRIMARY KEY (…) NOT ENFORCED instead"
    return parser.refusal("UNIQUE constraint is not supported yet", token, hint)


def _not_enforced(parser: QueryParser, first: Token) -> None:
    if parser.accept("NOT", "ENFORCED"):
        return
    parser.accept("ENFORCED")
    raise UserError(
        "SS1001",
        "ENFORCED mode is not supported for PRIMARY KEY constraint",
        span=Span(first.start, parser.previous_end),
        detail=_NOT_ENFORCED_DETAIL,
        hint="add NOT ENFORCED",
    )


def column_names(parser: QueryParser) -> tuple[Identifier, ...]:
    """Read `(a, b, …)`."""
    parser.expect("(")
    names = [parser.simple_name("a column name")]
    while parser.accept(","):
        names.append(parser.simple_name("a column name"))
    parser.expect(")")
    return tuple(names)


def _watermark(parser: QueryParser) -> WatermarkDef:
    start = parser.expect("WATERMARK", "FOR").start
    start = parser.peek(-2).start
    name_start = parser.token.start
    parts = [parser.name("the name of the time column").name]
    while parser.accept("."):
        parts.append(parser.name("a field name").name)
    column = Identifier(tuple(parts), Span(name_start, parser.previous_end))
    parser.expect("AS")
    expression = parser.value()
    return WatermarkDef(column, expression, Span(start, parser.previous_end))


def _column(parser: QueryParser) -> ColumnDef:
    start = parser.token.start
    name = parser.simple_name("a column name")
    if parser.accept("AS"):
        expression = parser.value()
        span = Span(start, parser.previous_end)
        comment = read_comment(parser)
        return ColumnDef(name.parts[0], ColumnKind.COMPUTED, span, expression=expression, comment=comment)
    if name.parts[0].upper() == "WATERMARK" and word(parser.peek(1)) == "AS":
        raise parser.unexpected('"FOR"', "write WATERMARK FOR column AS expression")
    column_type = data_type(parser)
    kind, metadata_key, is_virtual = ColumnKind.PHYSICAL, "", False
    if parser.accept("METADATA"):
        kind, metadata_key = ColumnKind.METADATA, name.parts[0]
        if parser.accept("FROM"):
            metadata_key = parser.string("the metadata key in single quotes").text
        is_virtual = parser.accept("VIRTUAL")
    is_primary_key = _column_constraints(parser)
    comment = read_comment(parser)
    return ColumnDef(
        name.parts[0],
        kind,
        Span(start, parser.previous_end),
        type=column_type,
        metadata_key=metadata_key,
        is_virtual=is_virtual,
        is_primary_key=is_primary_key,
        comment=comment,
    )


def _column_constraints(parser: QueryParser) -> bool:
    token = parser.token
    if parser.accept("CONSTRAINT"):
        parser.name("a constraint name")
    if parser.accept("PRIMARY"):
        parser.expect("KEY")
        _not_enforced(parser, token)
        return True
    if parser.at("UNIQUE"):
        raise _unique_refusal(parser)
    if parser.at("DEFAULT"):
        token = parser.advance()
        raise parser.refusal(
            "default values of columns are not supported", token, "use a computed column: c AS expression"
        )
    return False


def _create_view(parser: QueryParser, first: Token, is_temporary: bool) -> CreateView:
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a view name")
    names = column_names(parser) if parser.at("(") else ()
    comment = read_comment(parser)
    parser.expect("AS")
    query_start = parser.token.start
    query = parser.query()
    return CreateView(
        *extent(parser, first),
        name=name,
        column_names=names,
        query=query,
        query_text=parser.source(query_start, parser.previous_end),
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
    )


def drop(parser: QueryParser) -> DropObject | DropDatabase | DropCatalog:
    """Read DROP [TEMPORARY] TABLE | VIEW, or DROP DATABASE | CATALOG, with [IF EXISTS] and the name."""
    first = parser.expect("DROP")
    is_temporary = parser.accept("TEMPORARY")
    if not is_temporary and parser.accept("DATABASE"):
        return drop_database(parser, first)
    if not is_temporary and parser.accept("CATALOG"):
        return drop_catalog(parser, first)
    if not parser.at_any("TABLE", "VIEW"):
        raise unsupported(parser, first)
    is_view = word(parser.advance()) == "VIEW"
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a view name" if is_view else "a table name")
    return DropObject(
        *extent(parser, first), name=name, is_view=is_view, is_temporary=is_temporary, if_exists=if_exists
    )
