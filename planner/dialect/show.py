"""The grammar of SHOW and DESCRIBE."""

from __future__ import annotations

from sqlglot import Token, TokenType

from sqlstream.errors import Span
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.catalogs import database_name
from sqlstream.planner.dialect.ddl import unsupported
from sqlstream.planner.dialect.queries import QueryParser, extent
from sqlstream.planner.dialect.tokens import is_word, word
from sqlstream.planner.dialect.tokens import span as token_span


def show(parser: QueryParser) -> statements.Show | statements.ShowCheckpoints | statements.ShowLedger:
    """Read SHOW … to its filter."""
    first = parser.expect("SHOW")
    if parser.accept("CHECKPOINTS"):
        return statements.ShowCheckpoints(*_of_job(parser, first, "CHECKPOINTS"))
    if parser.accept("LEDGER"):
        return statements.ShowLedger(*_of_job(parser, first, "LEDGER"))
    kind = _show_kind(parser, first)
    name: statements.Identifier | None = None
    partition: tuple[tuple[statements.Identifier, str], ...] = ()
    if kind is statements.ShowKind.COLUMNS:
        if parser.accept_any("FROM", "IN") is None:
            raise parser.unexpected("FROM and a table name")
        name = parser.qualified_name("a table name")
    elif kind in (
        statements.ShowKind.CREATE_TABLE,
        statements.ShowKind.CREATE_VIEW,
        statements.ShowKind.CREATE_FUNCTION,
        statements.ShowKind.CREATE_MODEL,
    ):
        name = parser.qualified_name("a name")
    elif kind is statements.ShowKind.CREATE_CATALOG:
        name = parser.simple_name("a catalog name")
    elif kind in _OF_DATABASE and parser.accept_any("FROM", "IN"):
        name = database_name(parser)
    elif kind is statements.ShowKind.PARTITIONS:
        name = parser.qualified_name("a table name")
        partition = _partition(parser) if parser.at("PARTITION") else ()
    elif kind is statements.ShowKind.DATABASES and parser.accept_any("FROM", "IN"):
        name = parser.simple_name("a catalog name")
    elif parser.at_any("FROM", "IN"):
        token = parser.advance()
        raise parser.refusal(f"SHOW {kind.value} {word(token)} is not supported yet", token, "leave it out")
    like, is_ilike, is_negated = None, False, False
    if kind in _FILTERED and (parser.at_any("LIKE", "ILIKE") or parser.at("NOT")):
        is_negated = parser.accept("NOT")
        operator = parser.accept_any("LIKE", "ILIKE")
        if operator is None:
            raise parser.unexpected("LIKE or ILIKE")
        is_ilike = operator == "ILIKE"
        hint = f"write '{parser.token.text}'" if parser.at_name() else ""
        like = parser.string("a pattern in single quotes", hint).text
    return statements.Show(
        *extent(parser, first),
        kind=kind,
        name=name,
        like=like,
        is_ilike=is_ilike,
        is_negated=is_negated,
        partition=partition,
    )


_FILTERED = (
    *(statements.ShowKind.TABLES, statements.ShowKind.VIEWS, statements.ShowKind.COLUMNS),
    *(
        statements.ShowKind.FUNCTIONS,
        statements.ShowKind.USER_FUNCTIONS,
        statements.ShowKind.CATALOGS,
        statements.ShowKind.DATABASES,
    ),
    *(statements.ShowKind.CONNECTORS, statements.ShowKind.FORMATS),
    *(statements.ShowKind.PROCEDURES, statements.ShowKind.PARTITIONS, statements.ShowKind.MODELS),
)
_OF_DATABASE = (
    *(
        statements.ShowKind.TABLES,
        statements.ShowKind.VIEWS,
        statements.ShowKind.FUNCTIONS,
        statements.ShowKind.USER_FUNCTIONS,
    ),
    *(statements.ShowKind.PROCEDURES, statements.ShowKind.MODELS),
)


def _partition(parser: QueryParser) -> tuple[tuple[statements.Identifier, str], ...]:
    """Read PARTITION (column = value, …)."""
    parser.expect("PARTITION")
    parser.expect("(")
    values: list[tuple[statements.Identifier, str]] = []
    while not values or parser.accept(","):
        key = parser.simple_name("a partition column")
        parser.expect("=")
        if parser.token.token_type not in (TokenType.STRING, TokenType.NUMBER):
            raise parser.unexpected("a text in single quotes or a number")
        values.append((key, parser.advance().text))
    parser.expect(")")
    return tuple(values)


def _show_kind(parser: QueryParser, first: Token) -> statements.ShowKind:
    for kind in statements.ShowKind:
        if parser.accept(*kind.value.split()):
            return kind
    raise unsupported(parser, first)


def describe(
    parser: QueryParser,
) -> (
    statements.Describe | statements.DescribeExtension | statements.DescribeJob | statements.DescribeNamespace
):
    """Read DESCRIBE or DESC of a table, view, catalog, database, connector, format, function, model or job."""
    first = parser.advance()
    if parser.at("JOB") and _is_name(parser.peek(1)):
        parser.advance()
        return describe_job(parser, first)
    for kind in statements.DescribedKind:
        # A table may have this name too: then nothing follows it.
        if parser.at(kind.value) and _is_name(parser.peek(1)):
            parser.advance()
            return _describe_extension(parser, first, kind)
    is_extended = parser.at("EXTENDED") and bool(parser.peek(1))
    if is_extended:
        parser.advance()
    if parser.at_any("CATALOG", "DATABASE") and _is_name(parser.peek(1)):
        return _describe_namespace(parser, first)
    token = parser.token
    is_file = token.token_type is TokenType.STRING
    if is_file or parser.at_query() or parser.at("("):
        query = parser.query_of_file() if is_file else parser.query()
        return statements.Describe(
            *extent(parser, first),
            name=statements.Identifier((), token_span(token)),
            is_extended=is_extended,
            query=query,
        )
    name = parser.qualified_name("a table name")
    return statements.Describe(*extent(parser, first), name=name, is_extended=is_extended)


def _describe_namespace(parser: QueryParser, first: Token) -> statements.DescribeNamespace:
    """Read from CATALOG or DATABASE on."""
    is_catalog = word(parser.advance()) == "CATALOG"
    is_extended = parser.at("EXTENDED") and _is_name(parser.peek(1)) and parser.accept("EXTENDED")
    name = parser.simple_name("a catalog name") if is_catalog else database_name(parser)
    return statements.DescribeNamespace(
        *extent(parser, first), name=name, is_catalog=is_catalog, is_extended=is_extended
    )


def _is_name(token: Token) -> bool:
    return is_word(token) or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)


def _describe_extension(
    parser: QueryParser, first: Token, kind: statements.DescribedKind
) -> statements.DescribeExtension:
    """Read from the name on, which may be quoted (`upsert-kafka`) or a reserved word (LEFT), or from EXTENDED."""
    is_of_catalog = kind in (statements.DescribedKind.FUNCTION, statements.DescribedKind.MODEL)
    is_extended = is_of_catalog and _is_name(parser.peek(1)) and parser.accept("EXTENDED")
    if is_of_catalog and word(parser.peek(1)) == ".":
        name = parser.qualified_name(f"a {kind.value.lower()} name")
    else:
        token = parser.advance()
        name = statements.Identifier((token.text,), token_span(token))
    return statements.DescribeExtension(*extent(parser, first), kind=kind, name=name, is_extended=is_extended)


# The grammar of statements about jobs: DESCRIBE JOB, STOP JOB, SHOW CHECKPOINTS and SHOW LEDGER.


def describe_job(parser: QueryParser, first: Token) -> statements.DescribeJob:
    """Read from behind DESCRIBE JOB."""
    job = job_id(parser)
    return statements.DescribeJob(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def diagnose_job(parser: QueryParser, first: Token | None = None) -> statements.DiagnoseJob:
    """Read DIAGNOSE JOB 'id', or from behind EXPLAIN STATE FOR, which began with `first`."""
    written = "EXPLAIN STATE FOR" if first is not None else "DIAGNOSE"
    first = first or parser.expect("DIAGNOSE")
    parser.expect("JOB", hint=f"write {written} JOB 'id'")
    job = job_id(parser)
    return statements.DiagnoseJob(*extent(parser, first), job_id=job.text, id_span=token_span(job))


def stop_job(parser: QueryParser) -> statements.StopJob:
    """Read STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN]]."""
    first = parser.expect("STOP")
    parser.expect("JOB", hint="write STOP JOB 'id'")
    job = job_id(parser)
    has_savepoint = parser.at("WITH")
    if has_savepoint:
        hint = "WITH DRAIN comes behind WITH SAVEPOINT" if word(parser.peek(1)) == "DRAIN" else ""
        parser.expect("WITH")
        parser.expect("SAVEPOINT", hint=hint)
    is_drained = parser.at("WITH")
    if is_drained:
        parser.expect("WITH", "DRAIN")
    return statements.StopJob(
        *extent(parser, first),
        job_id=job.text,
        id_span=token_span(job),
        has_savepoint=has_savepoint,
        is_drained=is_drained,
    )


def _of_job(parser: QueryParser, first: Token, kind: str) -> tuple[str, Span, str, Span | None]:
    """Read from behind SHOW CHECKPOINTS or SHOW LEDGER: [FOR JOB 'id']. The fields of the statement: its text and place, the id
    and its place."""
    if not parser.accept("FOR"):
        return (*extent(parser, first), "", None)
    parser.expect("JOB", hint=f"write SHOW {kind} FOR JOB 'id'")
    job = job_id(parser)
    return (*extent(parser, first), job.text, token_span(job))


def job_id(parser: QueryParser) -> Token:
    """The id in quotes behind JOB."""
    return parser.string("the id of a job in single quotes", "SHOW JOBS lists the jobs")
