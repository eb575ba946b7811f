"""The grammar of CREATE, ALTER and DROP MODEL."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.errors import UserError
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.create_table import TableBody, column_definition
from sqlstream.planner.dialect.queries import QueryParser, extent, read_comment
from sqlstream.planner.dialect.reading import option_keys, option_list
from sqlstream.planner.dialect.tokens import span


def create_model(parser: QueryParser, first: Token, is_temporary: bool) -> statements.CreateModel:
    """Read from behind MODEL on."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a model name")
    inputs: tuple[statements.ColumnDef, ...] = ()
    outputs: tuple[statements.ColumnDef, ...] = ()
    example = "write INPUT (a DOUBLE, …) OUTPUT (b DOUBLE, …) behind the name"
    if not parser.at_any("COMMENT", "WITH", "AS"):
        parser.expect("INPUT", hint=example)
        inputs = _columns(parser)
        parser.expect("OUTPUT", hint=example)
        outputs = _columns(parser)
    comment = read_comment(parser)
    token = parser.token
    written = (
        "'algorithm' = 'linear-regression', …"
        if parser.at("AS")
        else "'provider' = 'onnx', 'path' = 'model.onnx'"
    )
    parser.expect("WITH", hint=f"write WITH ({written})")
    options = option_list(parser)
    query = parser.query() if parser.accept("AS") else None
    if query is None and not inputs:
        raise UserError("SS1001", "a model declares INPUT and OUTPUT", span=span(token), hint=example)
    return statements.CreateModel(
        *extent(parser, first),
        name=name,
        inputs=inputs,
        outputs=outputs,
        options=options,
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
        query=query,
    )


def alter_model(parser: QueryParser, first: Token) -> statements.AlterModel:
    """Read from behind MODEL on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a model name")
    target: statements.Identifier | None = None
    options: tuple[statements.Option, ...] = ()
    reset: tuple[statements.Identifier, ...] = ()
    if parser.accept("RENAME"):
        parser.expect("TO")
        target = parser.qualified_name("the other name")
    elif parser.accept("SET"):
        options = option_list(parser)
    elif parser.accept("RESET"):
        reset = option_keys(parser)
    else:
        raise parser.unexpected("RENAME TO, SET or RESET")
    return statements.AlterModel(
        *extent(parser, first), name=name, target=target, options=options, reset=reset, if_exists=if_exists
    )


def drop_model(parser: QueryParser, first: Token, is_temporary: bool) -> statements.DropModel:
    """Read from behind MODEL on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a model name")
    return statements.DropModel(
        *extent(parser, first), name=name, is_temporary=is_temporary, if_exists=if_exists
    )


def _columns(parser: QueryParser) -> tuple[statements.ColumnDef, ...]:
    """Read `(name type [COMMENT '…'], …)`. UserError SS3464 for a column that is computed or has more than a type."""
    parser.expect("(")
    columns: list[statements.ColumnDef] = []
    while not columns or parser.accept(","):
        column = column_definition(parser, TableBody())
        if column.kind is not statements.ColumnKind.PHYSICAL or column.is_primary_key:
            hint = "write its name, its type and a COMMENT alone"
            message = f'column "{column.name}" of a model has no expression, metadata or key'
            raise UserError("SS3464", message, span=column.span, hint=hint)
        columns.append(column)
    parser.expect(")", hint="put a comma between two columns" if parser.at_name() else "")
    return tuple(columns)
