"""The grammar of CREATE and DROP, with that of tables and views."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.catalogs import create_catalog, create_database, drop_catalog, drop_database
from sqlstream.planner.dialect.create_table import column_names, create_table
from sqlstream.planner.dialect.habits import object_hint, statement_hint
from sqlstream.planner.dialect.models import create_model, drop_model
from sqlstream.planner.dialect.queries import QueryParser, extent, read_comment
from sqlstream.planner.dialect.tokens import span, word


def create(
    parser: QueryParser,
) -> (
    statements.CreateTable
    | statements.CreateView
    | statements.CreateDatabase
    | statements.CreateCatalog
    | statements.CreateFunction
    | statements.CreateModel
):
    """Read CREATE [TEMPORARY] TABLE | VIEW | MODEL, CREATE [TEMPORARY [SYSTEM]] FUNCTION, or CREATE DATABASE | CATALOG."""
    first = parser.expect("CREATE")
    if parser.at("OR", "REPLACE") or parser.at("OR", "ALTER"):
        return _create_or_replace(parser, first)
    is_temporary = parser.accept("TEMPORARY")
    is_system = is_temporary and parser.at("SYSTEM", "FUNCTION") and parser.accept("SYSTEM")
    if parser.accept("FUNCTION"):
        return create_function(parser, first, is_temporary, is_system)
    if is_temporary and parser.at("SYSTEM"):
        raise unsupported(parser, first)
    if parser.accept("TABLE"):
        return create_table(parser, first, is_temporary, is_replacing=False)
    if parser.accept("VIEW"):
        return _create_view(parser, first, is_temporary)
    if parser.accept("MODEL"):
        return create_model(parser, first, is_temporary)
    if not is_temporary and parser.accept("DATABASE"):
        return create_database(parser, first)
    if not is_temporary and parser.accept("CATALOG"):
        return create_catalog(parser, first)
    raise unsupported(parser, first)


def replace(parser: QueryParser) -> statements.CreateTable:
    """Read REPLACE TABLE … AS query."""
    first = parser.expect("REPLACE")
    parser.expect("TABLE")
    return create_table(parser, first, is_temporary=False, is_replacing=True)


def _create_or_replace(parser: QueryParser, first: Token) -> statements.CreateTable:
    """Read the rest: both verbs give a table that exists the definition that is written; the rows of a query only replace."""
    parser.expect("OR")
    verb = word(parser.advance())
    is_temporary = parser.accept("TEMPORARY")
    if parser.at("MATERIALIZED"):
        raise unsupported(parser, first)
    if not parser.accept("TABLE"):
        hint = (
            "drop the object first, or use IF NOT EXISTS; the query of a view is replaced by ALTER VIEW … AS"
        )
        raise parser.refusal(f"CREATE OR {verb} is for tables", first, hint)
    created = create_table(parser, first, is_temporary, is_replacing=True)
    if verb == "ALTER" and created.query is not None:
        hint = "write CREATE OR REPLACE TABLE … AS, which runs the query anew"
        raise parser.refusal("CREATE OR ALTER TABLE takes no query", first, hint)
    return created


def unsupported(parser: QueryParser, first: Token) -> UserError:
    """SS1002, to be raised, for a statement of Flink's that is not built: named by its first words."""
    words = [word(first)]
    place = span(first)
    if word(first) in ("ADD", "ALTER", "CREATE", "DESC", "DESCRIBE", "DROP", "REMOVE", "SHOW"):
        while word(parser.token) in ("TEMPORARY", "SYSTEM", "MATERIALIZED", "FULL", "USER"):
            words.append(word(parser.advance()))
        if word(parser.token).isidentifier():
            words.append(word(parser.advance()))
        place = Span(first.start, max(first.end + 1, parser.previous_end))
    reason = reason_of(parser, tuple(words))
    if reason is not None:
        message = f'statement "{" ".join(words)}" is not supported: {reason[0]}'
        return UserError("SS1002", message, span=place, hint=reason[1])
    kind = " ".join(words[:2])
    hint = object_hint(kind) or (statement_hint(words[0]) if len(words) == 1 else "")
    candidates = _SHOWN if words[0] == "SHOW" else _OBJECTS
    is_misspelled = len(words) > 1 and words[1] not in (*candidates, *_UNBUILT)
    if not hint and is_misspelled and (meant := did_you_mean(words[1], candidates)):
        message = f'unexpected "{parser.peek(-1).text}"'
        return UserError("SS1001", message, span=span(parser.peek(-1)), hint=meant)
    if not hint and words[0] == "DROP":
        hint = "write DROP TABLE, VIEW, FUNCTION, MODEL, DATABASE or CATALOG and the name"
    hint = hint or (
        "supported are CREATE, ALTER and DROP of TABLE, VIEW, DATABASE, CATALOG, FUNCTION and MODEL, USE, "
        "INSERT, UPDATE, DELETE, TRUNCATE TABLE, EXECUTE STATEMENT SET, COMPILE PLAN, SELECT, EXPLAIN, ANALYZE TABLE, CALL, SET, "
        "RESET, SHOW and DESCRIBE"
    )
    return UserError("SS1002", f'statement "{" ".join(words)}" is not supported yet', span=place, hint=hint)


_OBJECTS = ("TABLE", "VIEW", "DATABASE", "CATALOG", "TEMPORARY", "FUNCTION", "MODEL")
_SHOWN = (
    *("TABLES", "VIEWS", "COLUMNS", "FUNCTIONS", "CONNECTORS", "FORMATS", "CATALOGS", "DATABASES", "JOBS"),
    *("CHECKPOINTS", "CREATE", "CURRENT", "MODELS"),
)
_UNBUILT = ("MODULES", "PROCEDURES", "PARTITIONS", "JARS", "CONNECTION")


def _create_view(parser: QueryParser, first: Token, is_temporary: bool) -> statements.CreateView:
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a view name")
    names = column_names(parser) if parser.at("(") else ()
    comment = read_comment(parser)
    parser.expect("AS")
    query_start = parser.token.start
    query = parser.query()
    return statements.CreateView(
        *extent(parser, first),
        name=name,
        column_names=names,
        query=query,
        query_text=parser.source(query_start, parser.previous_end),
        is_temporary=is_temporary,
        if_not_exists=if_not_exists,
        comment=comment,
    )


def drop(
    parser: QueryParser,
) -> (
    statements.DropObject
    | statements.DropDatabase
    | statements.DropCatalog
    | statements.DropFunction
    | statements.DropModel
):
    """Read DROP [TEMPORARY] TABLE | VIEW | FUNCTION | MODEL, or DROP DATABASE | CATALOG, with [IF EXISTS] and the name."""
    first = parser.expect("DROP")
    is_temporary = parser.accept("TEMPORARY")
    is_system = is_temporary and parser.at("SYSTEM", "FUNCTION") and parser.accept("SYSTEM")
    if parser.accept("FUNCTION"):
        return drop_function(parser, first, is_temporary, is_system)
    if parser.accept("MODEL"):
        return drop_model(parser, first, is_temporary)
    if not is_temporary and parser.accept("DATABASE"):
        return drop_database(parser, first)
    if not is_temporary and parser.accept("CATALOG"):
        return drop_catalog(parser, first)
    if not parser.at_any("TABLE", "VIEW"):
        raise unsupported(parser, first)
    is_view = word(parser.advance()) == "VIEW"
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a view name" if is_view else "a table name")
    if parser.at(","):
        raise parser.unexpected("the end of the statement", "drop them one by one, with a semicolon between")
    return statements.DropObject(
        *extent(parser, first), name=name, is_view=is_view, is_temporary=is_temporary, if_exists=if_exists
    )


# The grammar of CREATE, ALTER and DROP FUNCTION.


_LANGUAGES = ("PYTHON", "JAVA", "SCALA")


def create_function(
    parser: QueryParser, first: Token, is_temporary: bool, is_system: bool
) -> statements.CreateFunction:
    """Read from behind FUNCTION on."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.qualified_name("a function name")
    body = _body(parser)
    return statements.CreateFunction(
        *extent(parser, first),
        name=name,
        body=body,
        is_temporary=is_temporary,
        is_system=is_system,
        if_not_exists=if_not_exists,
    )


def alter_function(
    parser: QueryParser, first: Token, is_temporary: bool, is_system: bool
) -> statements.AlterFunction:
    """Read from behind FUNCTION on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a function name")
    body = _body(parser)
    return statements.AlterFunction(
        *extent(parser, first),
        name=name,
        body=body,
        is_temporary=is_temporary,
        is_system=is_system,
        if_exists=if_exists,
    )


def drop_function(
    parser: QueryParser, first: Token, is_temporary: bool, is_system: bool
) -> statements.DropFunction:
    """Read from behind FUNCTION on."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a function name")
    return statements.DropFunction(
        *extent(parser, first), name=name, is_temporary=is_temporary, is_system=is_system, if_exists=if_exists
    )


def _body(parser: QueryParser) -> statements.FunctionBody:
    """Read `AS 'module.name' [LANGUAGE PYTHON] [USING FILE 'path', …]`."""
    parser.expect("AS")
    token = parser.string("the Python object, as 'module.name'")
    language = parser.token
    if parser.accept("LANGUAGE"):
        language = parser.token
        written = parser.accept_any(*_LANGUAGES)
        if written is None:
            raise parser.unexpected("PYTHON", "the language of functions is PYTHON")
    else:
        written = "JAVA"
    if written != "PYTHON":
        hint = f"write LANGUAGE PYTHON behind '{token.text}', and name an object of a Python module"
        raise parser.refusal(
            f"functions are written in Python; {written} is not supported",
            language if language else token,
            hint,
        )
    return statements.FunctionBody(token.text, span(token), _files(parser))


def _files(parser: QueryParser) -> tuple[statements.FileName, ...]:
    files: list[statements.FileName] = []
    if not parser.accept("USING"):
        return ()
    while not files or parser.accept(","):
        if parser.at_any("JAR"):
            hint = "write USING FILE 'functions.py', or a .zip with a package"
            raise parser.refusal("a Python function has no JAR", parser.advance(), hint)
        if not parser.at_any("FILE", "ARCHIVE"):
            raise parser.unexpected("FILE and a path")
        word(parser.advance())
        path = parser.string("the path of a .py or .zip file, or of a directory")
        files.append(statements.FileName(path.text, span(path)))
    return tuple(files)


# Why statements that Flink's grammar has are not there, and what to write instead.


_MATERIALIZED = (
    "no scheduler refreshes tables",
    "keep a table up to date with a job: CREATE TABLE … AS query, or INSERT INTO table query",
)
_CONNECTION = (
    "the options of a table name its connection",
    "write them in WITH (…), or take those of another table: CREATE TABLE … LIKE",
)
_JAR = (
    "connectors, formats and functions are Python modules, and no JVM runs them",
    "SHOW CONNECTORS, SHOW FORMATS and SHOW FUNCTIONS list what there is",
)
_FOREIGN = (
    "Flink SQL has no such statement",
    "write INSERT INTO a table with a primary key, UPDATE or DELETE",
)
_REASONS = {
    "MATERIALIZED": _MATERIALIZED,
    "CONNECTION": _CONNECTION,
    "CONNECTIONS": _CONNECTION,
    "JAR": _JAR,
    "JARS": _JAR,
    "MERGE": _FOREIGN,
    "UPSERT": _FOREIGN,
}
_WORDS_MAX = 4


def reason_of(parser: QueryParser, begin: tuple[str, ...]) -> tuple[str, str] | None:
    """Why the statement that begins with these words and goes on at the parser's place is refused, and a hint."""
    words = [*begin, *(word(parser.peek(i)) for i in range(_WORDS_MAX - len(begin)))]
    # A name comes behind the word that says of what kind the object is.
    for position, found in enumerate(words[:3]):
        if found in _REASONS and (position == 0 or words[position - 1] not in ("TABLE", "VIEW", "FUNCTION")):
            return _REASONS[found]
    return None
