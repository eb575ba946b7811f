"""The grammar of CREATE TABLE: its elements, which ALTER TABLE has too, LIKE and AS."""

from __future__ import annotations

import dataclasses

from sqlglot import Token, exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.data_types import data_type
from sqlstream.planner.dialect.queries import QueryParser, extent, read_comment
from sqlstream.planner.dialect.reading import option_list
from sqlstream.planner.dialect.tokens import span, word

_NOT_ENFORCED_DETAIL = (
    "ENFORCED / NOT ENFORCED controls if the constraint checks are performed on the incoming / outgoing "
    "data; the data is not owned here, therefore the only supported mode is NOT ENFORCED"
)

_STRATEGIES = ("INCLUDING", "EXCLUDING", "OVERWRITING")
_FEATURES = (
    "ALL",
    "CONSTRAINTS",
    "DISTRIBUTION",
    "GENERATED",
    "METADATA",
    "OPTIONS",
    "PARTITIONS",
    "WATERMARKS",
)
_OVERWRITTEN = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")


@dataclasses.dataclass
class TableBody:
    """The elements of a table in the order in which they stand; `names` are columns without a type."""

    columns: list[statements.ColumnDef] = dataclasses.field(default_factory=list)
    watermark: statements.WatermarkDef | None = None
    primary_key: tuple[statements.Identifier, ...] = ()
    key_name: str = ""
    names: list[statements.Identifier] = dataclasses.field(default_factory=list)


def create_table(
    parser: QueryParser, first: Token, is_temporary: bool, is_replacing: bool
) -> statements.CreateTable:
    """Read from the name of the table on."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a table name")
    body = _table_body(parser)
    comment = read_comment(parser)
    like = _like(parser)
    _refuse_buckets(parser)
    partition_keys: tuple[statements.Identifier, ...] = ()
    if parser.accept("PARTITIONED"):
        parser.expect("BY")
        partition_keys = column_names(parser)
    options: tuple[statements.Option, ...] = option_list(parser) if parser.accept("WITH") else ()
    like = like or _like(parser)
    query = None
    if like is None and parser.accept("AS"):
        query = parser.query()
    _check_names(body, query)
    return statements.CreateTable(
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
        is_replacing=is_replacing,
        query=query,
        query_columns=tuple(body.names),
        key_name=body.key_name,
    )


def _like(parser: QueryParser) -> statements.LikeFiles | statements.LikeTable | None:
    """Read LIKE 'path' or LIKE table (INCLUDING …), before or behind the options."""
    if not parser.accept("LIKE"):
        return None
    if parser.at_string():
        token = parser.string()
        return statements.LikeFiles(token.text, span(token))
    name = parser.qualified_name("a table name, or files as in LIKE 'clicks.csv'")
    options: list[statements.LikeOption] = []
    if parser.accept("("):
        while not parser.accept(")"):
            options.append(_like_option(parser))
    return statements.LikeTable(name, tuple(options))


def _like_option(parser: QueryParser) -> statements.LikeOption:
    first = parser.token
    strategy = parser.accept_any(*_STRATEGIES)
    if strategy is None:
        raise parser.unexpected("INCLUDING, EXCLUDING or OVERWRITING")
    feature = parser.accept_any(*(_OVERWRITTEN if strategy == "OVERWRITING" else _FEATURES))
    if feature is None:
        of = _OVERWRITTEN if strategy == "OVERWRITING" else _FEATURES
        raise parser.unexpected(f"one of {', '.join(of)}")
    return statements.LikeOption(strategy, feature, Span(first.start, parser.previous_end))


def _refuse_buckets(parser: QueryParser) -> None:
    if parser.at("DISTRIBUTED"):
        token = parser.advance()
        hint = "leave DISTRIBUTED out: a topic has the partitions that it was made with; files divide by PARTITIONED BY"
        raise parser.refusal("no connector keeps its rows in buckets", token, hint)


def _check_names(body: TableBody, query: exp.Expression | None) -> None:
    """A column without a type is one of the query's."""
    if body.names and (query is None or body.columns):
        named = body.names[0]
        hint = (
            "write its type behind its name" if query is None else "give every column a type, or none of them"
        )
        raise UserError("SS1001", f'column "{named.parts[0]}" has no type', span=named.span, hint=hint)


def _table_body(parser: QueryParser) -> TableBody:
    body = TableBody()
    if not parser.accept("("):
        return body
    if parser.accept(")"):
        return body
    while True:
        table_element(parser, body)
        if not parser.accept(","):
            break
    parser.expect(")", hint="put a comma between two columns" if parser.at_name() else "")
    return body


def table_element(parser: QueryParser, body: TableBody) -> None:
    """Read a column, a key or the watermark."""
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
        body.key_name = parser.name("a constraint name").name
    if parser.at("UNIQUE", "("):
        raise _unique_refusal(parser)
    if parser.at("FOREIGN", "KEY") or parser.at("CHECK", "("):
        parser.advance()
        hint = "leave it out: a table does not test its rows, and does not know those of another"
        raise parser.refusal(f"the constraint {word(token)} is not supported", token, hint)
    if parser.at("PRIMARY", "KEY"):
        parser.expect("PRIMARY", "KEY")
        keys = column_names(parser)
        _not_enforced(parser, token)
        _set_primary_key(body, keys, Span(token.start, parser.previous_end))
        return
    if word(parser.peek(1)) in (",", ")") and parser.at_name():
        body.names.append(parser.simple_name("a column name"))
        return
    column = column_definition(parser, body)
    body.columns.append(column)
    if column.is_primary_key:
        _set_primary_key(body, (statements.Identifier((column.name,), column.span),), column.span)


def _set_primary_key(body: TableBody, keys: tuple[statements.Identifier, ...], span: Span) -> None:
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


def column_names(parser: QueryParser) -> tuple[statements.Identifier, ...]:
    """Read `(a, b, …)`."""
    parser.expect("(")
    names = [parser.simple_name("a column name")]
    while parser.accept(","):
        names.append(parser.simple_name("a column name"))
    parser.expect(")")
    return tuple(names)


def _watermark(parser: QueryParser) -> statements.WatermarkDef:
    start = parser.expect("WATERMARK", "FOR").start
    start = parser.peek(-2).start
    name_start = parser.token.start
    parts = [parser.name("the name of the time column").name]
    while parser.accept("."):
        parts.append(parser.name("a field name").name)
    column = statements.Identifier(tuple(parts), Span(name_start, parser.previous_end))
    parser.expect("AS")
    expression = parser.value()
    return statements.WatermarkDef(column, expression, Span(start, parser.previous_end))


def column_definition(parser: QueryParser, body: TableBody) -> statements.ColumnDef:
    """Read a column with its type or expression, its constraints and its comment; `body` takes the name of its key."""
    start = parser.token.start
    name = parser.simple_name("a column name")
    if parser.accept("AS"):
        expression = parser.value()
        span = Span(start, parser.previous_end)
        comment = read_comment(parser)
        return statements.ColumnDef(
            name.parts[0], statements.ColumnKind.COMPUTED, span, expression=expression, comment=comment
        )
    if name.parts[0].upper() == "WATERMARK" and word(parser.peek(1)) == "AS":
        raise parser.unexpected('"FOR"', "write WATERMARK FOR column AS expression")
    column_type = data_type(parser)
    kind, metadata_key, is_virtual = statements.ColumnKind.PHYSICAL, "", False
    if parser.accept("METADATA"):
        kind, metadata_key = statements.ColumnKind.METADATA, name.parts[0]
        if parser.accept("FROM"):
            metadata_key = parser.string("the metadata key in single quotes").text
        is_virtual = parser.accept("VIRTUAL")
    is_primary_key = _column_constraints(parser, body)
    comment = read_comment(parser)
    return statements.ColumnDef(
        name.parts[0],
        kind,
        Span(start, parser.previous_end),
        type=column_type,
        metadata_key=metadata_key,
        is_virtual=is_virtual,
        is_primary_key=is_primary_key,
        comment=comment,
    )


def _column_constraints(parser: QueryParser, body: TableBody) -> bool:
    token = parser.token
    is_named = parser.accept("CONSTRAINT")
    if is_named:
        body.key_name = parser.name("a constraint name").name
    if parser.accept("PRIMARY"):
        parser.expect("KEY")
        _not_enforced(parser, token)
        return True
    if parser.at("UNIQUE"):
        raise _unique_refusal(parser)
    if is_named:
        raise parser.unexpected("PRIMARY KEY")
    if parser.at("DEFAULT"):
        token = parser.advance()
        raise parser.refusal(
            "default values of columns are not supported", token, "use a computed column: c AS expression"
        )
    return False
