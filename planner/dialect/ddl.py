"""The grammar of CREATE and DROP of tables and views."""

from __future__ import annotations

import dataclasses

from planner.dialect import expressions, queries
from planner.dialect.data_types import data_type
from planner.dialect.options import option_list
from planner.dialect.statements import (
    ColumnDef,
    ColumnKind,
    CreateTable,
    CreateView,
    DropObject,
    Identifier,
    Option,
    WatermarkDef,
)
from planner.dialect.tokens import Cursor, Token
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


def create(cursor: Cursor) -> CreateTable | CreateView:
    """Read CREATE [TEMPORARY] TABLE | VIEW."""
    first = cursor.expect("CREATE")
    if cursor.at("OR", "REPLACE"):
        cursor.advance()
        cursor.advance()
        raise cursor.refusal(
            "CREATE OR REPLACE is not supported", first, "drop the object first, or use IF NOT EXISTS"
        )
    is_temporary = cursor.accept("TEMPORARY")
    if is_temporary and cursor.at("SYSTEM"):
        raise unsupported(cursor, first)
    if cursor.accept("TABLE"):
        return _create_table(cursor, first, is_temporary)
    if cursor.accept("VIEW"):
        return _create_view(cursor, first, is_temporary)
    raise unsupported(cursor, first)


def unsupported(cursor: Cursor, first: Token) -> UserError:
    """SS1002, to be raised, for a statement of Flink's that is not built: named by its first words."""
    words = [first.upper]
    span = first.span
    if first.upper in ("ALTER", "CREATE", "DROP", "SHOW", "DESCRIBE", "DESC"):
        while cursor.token.upper in ("TEMPORARY", "SYSTEM", "MATERIALIZED", "FULL", "USER"):
            words.append(cursor.advance().upper)
        if cursor.token.upper.isidentifier():
            words.append(cursor.advance().upper)
        span = Span(first.start, max(first.end, cursor.previous_end))
    hint = (
        "supported are CREATE and DROP of TABLE and VIEW, INSERT INTO, EXECUTE STATEMENT SET, SELECT, "
        "EXPLAIN, SET, RESET, SHOW and DESCRIBE"
    )
    return UserError("SS1002", f'statement "{" ".join(words)}" is not supported yet', span=span, hint=hint)


def extent(cursor: Cursor, first: Token) -> tuple[str, Span]:
    """The text and span of a statement from `first` to the last token read."""
    end = cursor.previous_end
    return cursor.source(first.start, end), Span(first.start, end)


def _comment(cursor: Cursor) -> str:
    return cursor.string("the comment in single quotes").text if cursor.accept("COMMENT") else ""


def _create_table(cursor: Cursor, first: Token, is_temporary: bool) -> CreateTable:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.qualified_name("a table name")
    body = _table_body(cursor)
    comment = _comment(cursor)
    _refuse_clauses(cursor)
    partition_keys: tuple[Identifier, ...] = ()
    if cursor.accept("PARTITIONED"):
        cursor.expect("BY")
        partition_keys = column_names(cursor)
    options: tuple[Option, ...] = option_list(cursor) if cursor.accept("WITH") else ()
    _refuse_clauses(cursor)
    return CreateTable(
        *extent(cursor, first),
        name=name,
        columns=tuple(body.columns),
        watermark=body.watermark,
        primary_key=body.primary_key,
        partition_keys=partition_keys,
        options=options,
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
    )


def _refuse_clauses(cursor: Cursor) -> None:
    """Refuse what Flink allows around WITH and is not built."""
    if cursor.at_any("DISTRIBUTED", "AS", "LIKE"):
        token = cursor.advance()
        hint = "create the table with its columns, and fill it with INSERT INTO"
        raise cursor.refusal(f"CREATE TABLE … {token.upper} is not supported yet", token, hint)


def _table_body(cursor: Cursor) -> _TableBody:
    body = _TableBody()
    if not cursor.accept("("):
        return body
    if cursor.accept(")"):
        return body
    while True:
        _table_element(cursor, body)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return body


def _table_element(cursor: Cursor, body: _TableBody) -> None:
    token = cursor.token
    if cursor.at("WATERMARK", "FOR"):
        watermark = _watermark(cursor)
        if body.watermark is not None:
            hint = "keep one of the two"
            raise UserError("SS1001", "a table has at most one watermark", span=watermark.span, hint=hint)
        body.watermark = watermark
        return
    if cursor.at("CONSTRAINT") and cursor.peek(2).upper in ("PRIMARY", "UNIQUE"):
        cursor.advance()
        cursor.name("a constraint name")
    if cursor.at("UNIQUE", "("):
        raise _unique_refusal(cursor)
    if cursor.at("PRIMARY", "KEY"):
        cursor.expect("PRIMARY", "KEY")
        keys = column_names(cursor)
        _not_enforced(cursor, token)
        _set_primary_key(body, keys, Span(token.start, cursor.previous_end))
        return
    column = _column(cursor)
    body.columns.append(column)
    if column.is_primary_key:
        _set_primary_key(body, (Identifier((column.name,), column.span),), column.span)


def _set_primary_key(body: _TableBody, keys: tuple[Identifier, ...], span: Span) -> None:
    if body.primary_key:
        hint = "keep one of the two; a key of several columns is PRIMARY KEY (a, b) NOT ENFORCED"
        raise UserError("SS1001", "a table has at most one primary key", span=span, hint=hint)
    body.primary_key = keys


def _unique_refusal(cursor: Cursor) -> UserError:
    token = cursor.advance()
    hint = "declare PRIMARY KEY (…) NOT ENFORCED instead"
    return cursor.refusal("UNIQUE constraint is not supported yet", token, hint)


def _not_enforced(cursor: Cursor, first: Token) -> None:
    if cursor.accept("NOT", "ENFORCED"):
        return
    cursor.accept("ENFORCED")
    raise UserError(
        "SS1001",
        "ENFORCED mode is not supported for PRIMARY KEY constraint",
        span=Span(first.start, cursor.previous_end),
        detail=_NOT_ENFORCED_DETAIL,
        hint="add NOT ENFORCED",
    )


def column_names(cursor: Cursor) -> tuple[Identifier, ...]:
    """Read `(a, b, …)`."""
    cursor.expect("(")
    names = [cursor.simple_name("a column name")]
    while cursor.accept(","):
        names.append(cursor.simple_name("a column name"))
    cursor.expect(")")
    return tuple(names)


def _watermark(cursor: Cursor) -> WatermarkDef:
    start = cursor.expect("WATERMARK", "FOR").start
    start = cursor.peek(-2).start
    name_start = cursor.token.start
    parts = [cursor.name("the name of the time column").name]
    while cursor.accept("."):
        parts.append(cursor.name("a field name").name)
    column = Identifier(tuple(parts), Span(name_start, cursor.previous_end))
    cursor.expect("AS")
    expression = expressions.expression(cursor)
    return WatermarkDef(column, expression, Span(start, cursor.previous_end))


def _column(cursor: Cursor) -> ColumnDef:
    start = cursor.token.start
    name = cursor.simple_name("a column name")
    if cursor.accept("AS"):
        expression = expressions.expression(cursor)
        span = Span(start, cursor.previous_end)
        comment = _comment(cursor)
        return ColumnDef(name.parts[0], ColumnKind.COMPUTED, span, expression=expression, comment=comment)
    column_type = data_type(cursor)
    kind, metadata_key, is_virtual = ColumnKind.PHYSICAL, "", False
    if cursor.accept("METADATA"):
        kind, metadata_key = ColumnKind.METADATA, name.parts[0]
        if cursor.accept("FROM"):
            metadata_key = cursor.string("the metadata key in single quotes").text
        is_virtual = cursor.accept("VIRTUAL")
    is_primary_key = _column_constraints(cursor)
    comment = _comment(cursor)
    return ColumnDef(
        name.parts[0],
        kind,
        Span(start, cursor.previous_end),
        type=column_type,
        metadata_key=metadata_key,
        is_virtual=is_virtual,
        is_primary_key=is_primary_key,
        comment=comment,
    )


def _column_constraints(cursor: Cursor) -> bool:
    token = cursor.token
    if cursor.accept("CONSTRAINT"):
        cursor.name("a constraint name")
    if cursor.accept("PRIMARY"):
        cursor.expect("KEY")
        _not_enforced(cursor, token)
        return True
    if cursor.at("UNIQUE"):
        raise _unique_refusal(cursor)
    if cursor.at("DEFAULT"):
        token = cursor.advance()
        raise cursor.refusal(
            "default values of columns are not supported", token, "use a computed column: c AS expression"
        )
    return False


def _create_view(cursor: Cursor, first: Token, is_temporary: bool) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.qualified_name("a view name")
    names = column_names(cursor) if cursor.at("(") else ()
    comment = _comment(cursor)
    cursor.expect("AS")
    query_start = cursor.token.start
    query = queries.query(cursor)
    return CreateView(
        *extent(cursor, first),
        name=name,
        column_names=names,
        query=query,
        query_text=cursor.source(query_start, cursor.previous_end),
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
    )


def drop(cursor: Cursor) -> DropObject:
    """Read DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name."""
    first = cursor.expect("DROP")
    is_temporary = cursor.accept("TEMPORARY")
    if not cursor.at_any("TABLE", "VIEW"):
        raise unsupported(cursor, first)
    is_view = cursor.advance().upper == "VIEW"
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.qualified_name("a view name" if is_view else "a table name")
    return DropObject(
        *extent(cursor, first), name=name, is_view=is_view, is_temporary=is_temporary, if_exists=if_exists
    )
