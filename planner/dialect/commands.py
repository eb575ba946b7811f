"""Statements by their first words, and the grammar of SET, RESET, EXPLAIN, INSERT and statement sets."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace
from sqlglot import Token, TokenType, exp

from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect import alter, catalogs, changing, ddl, show, statements
from sqlstream.planner.dialect.create_table import column_names
from sqlstream.planner.dialect.ddl import unsupported
from sqlstream.planner.dialect.habits import statement_hint
from sqlstream.planner.dialect.queries import QueryParser, extent
from sqlstream.planner.dialect.reading import option_list, read_option
from sqlstream.planner.dialect.tokens import is_word, span, word
from sqlstream.planner.dialect.tokens import span as token_span
from sqlstream.specs.sink import OnConflict


def execute_plan(parser: QueryParser, first: Token) -> statements.ExecutePlan:
    """Read the path behind EXECUTE PLAN."""
    path = parser.string("the path of a compiled plan in single quotes")
    return statements.ExecutePlan(*extent(parser, first), path=path.text, path_span=span(path))


# The grammar of CALL, ANALYZE TABLE, and LOAD, UNLOAD and USE of modules.


def call(parser: QueryParser) -> statements.CallProcedure:
    """Read CALL name(argument, …)."""
    first = parser.expect("CALL")
    name = parser.qualified_name("the name of a procedure")
    parser.expect("(", hint="write CALL sys.name('argument'); SHOW PROCEDURES lists the names")
    arguments: list[statements.Argument] = []
    while not parser.at(")") and (not arguments or parser.accept(",")):
        token = parser.token
        if token.token_type is TokenType.STRING:
            arguments.append(statements.Argument(parser.advance().text, span(token)))
        elif token.token_type is TokenType.NUMBER:
            arguments.append(statements.Argument(parser.unsigned_integer(), span(token)))
        else:
            raise parser.unexpected("a text in single quotes or a whole number", "a procedure takes literals")
    parser.expect(")")
    return statements.CallProcedure(*extent(parser, first), name=name, arguments=tuple(arguments))


def analyze(parser: QueryParser) -> statements.AnalyzeTable:
    """Read ANALYZE TABLE name COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]."""
    first = parser.expect("ANALYZE")
    parser.expect("TABLE", hint="write ANALYZE TABLE t COMPUTE STATISTICS, or EXPLAIN ANALYZE query")
    name = parser.qualified_name("a table name")
    if parser.at("PARTITION"):
        token = parser.advance()
        hint = "leave PARTITION out: the statistics are those of the whole table"
        raise parser.refusal("statistics of single partitions are not kept", token, hint)
    parser.expect("COMPUTE", "STATISTICS")
    columns: tuple[statements.Identifier, ...] | None = ()
    if parser.accept("FOR", "ALL"):
        parser.expect("COLUMNS")
        columns = None
    elif parser.accept("FOR"):
        parser.expect("COLUMNS", hint="write FOR COLUMNS a, b or FOR ALL COLUMNS")
        if parser.at("("):
            columns = column_names(parser)
        else:
            listed: list[statements.Identifier] = []
            while not listed or parser.accept(","):
                listed.append(parser.simple_name("a column name"))
            columns = tuple(listed)
    return statements.AnalyzeTable(*extent(parser, first), name=name, columns=columns)


def load_module(parser: QueryParser) -> statements.ChangeModules:
    """Read LOAD MODULE name; options of a module are refused with the module."""
    first = parser.expect("LOAD")
    parser.expect("MODULE")
    name = parser.simple_name("the name of a module")
    if parser.at("WITH"):
        while not parser.at_end():
            parser.advance()
    return statements.ChangeModules(
        *extent(parser, first), action=statements.ModuleAction.LOAD, names=(name,)
    )


def unload_module(parser: QueryParser) -> statements.ChangeModules:
    """Read UNLOAD MODULE name."""
    first = parser.expect("UNLOAD")
    parser.expect("MODULE")
    name = parser.simple_name("the name of a module")
    return statements.ChangeModules(
        *extent(parser, first), action=statements.ModuleAction.UNLOAD, names=(name,)
    )


def use_modules(parser: QueryParser) -> statements.ChangeModules:
    """Read USE MODULES name, …."""
    first = parser.expect("USE")
    parser.expect("MODULES")
    names: list[statements.Identifier] = []
    while not names or parser.accept(","):
        names.append(parser.simple_name("the name of a module"))
    return statements.ChangeModules(
        *extent(parser, first), action=statements.ModuleAction.USE, names=tuple(names)
    )


_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_UNBUILT = ("ADD", "MERGE", "REMOVE", "UPSERT")


def statement(parser: QueryParser) -> statements.Statement:
    """Read one statement to its end."""
    token = parser.token
    reader = _READERS.get(word(token))
    if reader is not None:
        result = reader(parser)
    elif parser.at("("):
        result = _query(parser)
    elif word(token) in _UNBUILT:
        parser.advance()
        raise unsupported(parser, token)
    else:
        hint = statement_hint(word(token))
        hint = hint or (did_you_mean(token.text, sorted(_READERS)) if is_word(token) else "")
        raise parser.unexpected(
            "a statement", hint or "a statement begins with a word such as SELECT, INSERT or CREATE"
        )
    parser.expect_end()
    return result


def _use(parser: QueryParser) -> statements.Statement:
    # A database may be named modules: then nothing follows it.
    is_of_modules = parser.at("USE", "MODULES") and bool(parser.peek(2))
    return use_modules(parser) if is_of_modules else catalogs.use(parser)


def _query(parser: QueryParser) -> statements.Query:
    first = parser.token
    query = parser.query()
    return statements.Query(*extent(parser, first), query=query)


def _insert(parser: QueryParser) -> statements.Insert:
    first = parser.expect("INSERT")
    is_overwriting = parser.accept("OVERWRITE")
    if is_overwriting:
        # Hive's users write TABLE behind it.
        parser.accept("TABLE")
    else:
        parser.expect(
            "INTO", hint="write INSERT INTO, or INSERT OVERWRITE to replace the rows that are there"
        )
    if parser.at_string():
        raise _path_refusal(parser)
    target = parser.qualified_name("a table name")
    hints = parser.table_hint()
    partition = _partition(parser) if parser.at("PARTITION") else ()
    columns: tuple[statements.Identifier, ...] = ()
    if parser.at("(") and word(parser.peek(1)) not in ("SELECT", "WITH", "VALUES", "("):
        columns = column_names(parser)
    is_by_name = _is_by_name(parser, bool(columns))
    query = parser.query()
    on_conflict, on_conflict_span = _on_conflict(parser)
    backfills = _backfills(parser)
    return statements.Insert(
        *extent(parser, first),
        target=target,
        columns=columns,
        query=query,
        partition=partition,
        hints=hints,
        on_conflict=on_conflict,
        on_conflict_span=on_conflict_span,
        is_overwriting=is_overwriting,
        is_by_name=is_by_name,
        backfills=backfills,
    )


def _backfills(parser: QueryParser) -> tuple[statements.Backfill, ...]:
    """Read WITH BACKFILL [table] FROM history [HAND OVER AT condition], …"""
    found: list[statements.Backfill] = []
    if not parser.at("WITH", "BACKFILL"):
        return ()
    parser.expect("WITH", "BACKFILL")
    while not found or parser.accept(","):
        first = parser.token
        table = None if parser.at("FROM") else parser.qualified_name("a table of the query")
        parser.expect("FROM", hint="write WITH BACKFILL FROM history, or WITH BACKFILL table FROM history")
        source = parser.table_or_files()
        condition = None
        if parser.accept("HAND"):
            parser.expect("OVER", "AT", hint="write HAND OVER AT ts >= TIMESTAMP '2026-01-01 00:00:00'")
            condition = parser.value()
        found.append(statements.Backfill(table, source, condition, Span(first.start, parser.previous_end)))
    return tuple(found)


def _is_by_name(parser: QueryParser, has_columns: bool) -> bool:
    """Read BY NAME, or BY POSITION, which is as without it."""
    first = parser.token
    if not parser.accept("BY"):
        return False
    is_by_name = parser.accept("NAME")
    if not is_by_name:
        parser.expect("POSITION", hint="write BY NAME, or leave BY out")
    if is_by_name and has_columns:
        hint = "leave out the columns behind the table's name, or BY NAME"
        raise parser.refusal("BY NAME takes the columns from the query", first, hint)
    return is_by_name


def _on_conflict(parser: QueryParser) -> tuple[OnConflict | None, Span | None]:
    """Read ON CONFLICT DO DEDUPLICATE | NOTHING | ERROR, and its place."""
    first = parser.token
    if not parser.accept("ON", "CONFLICT"):
        return None, None
    parser.expect(
        "DO", hint="write ON CONFLICT DO DEDUPLICATE, NOTHING or ERROR: the key is that of the table"
    )
    if not parser.at_any("DEDUPLICATE", "NOTHING", "ERROR"):
        hint = "DO DEDUPLICATE keeps the row that was added last, DO NOTHING the one that was there before, DO ERROR allows one"
        raise parser.unexpected("DEDUPLICATE, NOTHING or ERROR", hint)
    action = OnConflict(word(parser.advance()))
    return action, Span(first.start, parser.previous_end)


def _path_refusal(parser: QueryParser) -> UserError:
    token = parser.advance()
    hint = "write into a table: CREATE TABLE t (…) WITH ('connector' = 'filesystem', 'path' = '…', 'format' = '…')"
    return parser.refusal("a path in quotes can be read, not written", token, hint)


def _partition(parser: QueryParser) -> tuple[tuple[statements.Identifier, exp.Expression], ...]:
    parser.expect("PARTITION")
    parser.expect("(")
    values: list[tuple[statements.Identifier, exp.Expression]] = []
    while not values or parser.accept(","):
        key = parser.simple_name("a partition column")
        parser.expect("=", hint="give every partition column listed here a value")
        values.append((key, parser.operand()))
    parser.expect(")")
    return tuple(values)


def _execute(parser: QueryParser) -> statements.Statement:
    first = parser.expect("EXECUTE")
    if parser.accept("PLAN"):
        return execute_plan(parser, first)
    if parser.at("STATEMENT"):
        return _statement_set(parser, first)
    if parser.at("INSERT"):
        insert = _insert(parser)
        text, span = extent(parser, first)
        return replace(insert, text=text, span=span)
    if parser.at_query():
        query = parser.query()
        return statements.Query(*extent(parser, first), query=query)
    raise parser.unexpected("STATEMENT SET, PLAN, INSERT or a query")


def _statement_set(parser: QueryParser, first: Token) -> statements.StatementSet:
    """Read from STATEMENT on: `STATEMENT SET BEGIN … END`."""
    parser.expect("STATEMENT", "SET", "BEGIN")
    return _set_body(parser, first)


def _begin(parser: QueryParser) -> statements.StatementSet | statements.BeginStatementSet:
    """A whole set, or its beginning alone: clients that send each statement by itself end it by another one."""
    first = parser.expect("BEGIN")
    parser.expect("STATEMENT", "SET")
    if parser.at_end() or (parser.accept(";") and parser.at_end()):
        return statements.BeginStatementSet(*extent(parser, first))
    return _set_body(parser, first)


def _end(parser: QueryParser) -> statements.EndStatementSet:
    first = parser.expect("END")
    return statements.EndStatementSet(*extent(parser, first))


def _set_body(parser: QueryParser, first: Token) -> statements.StatementSet:
    inserts: list[statements.Insert] = []
    while not inserts or not parser.at("END"):
        parser.accept("EXECUTE")
        if not parser.at("INSERT"):
            raise parser.unexpected(
                "INSERT INTO", "a statement set holds only INSERT INTO statements, and ends with END"
            )
        inserts.append(_insert(parser))
        parser.expect(";", hint="end every INSERT of a statement set with a semicolon")
    parser.expect("END")
    return statements.StatementSet(*extent(parser, first), inserts=tuple(inserts))


def _compile(parser: QueryParser) -> statements.CompilePlan:
    """Read COMPILE [AND EXECUTE] PLAN 'file' [IF NOT EXISTS] FOR statement."""
    first = parser.expect("COMPILE")
    is_executed = parser.accept("AND", "EXECUTE")
    parser.expect("PLAN", hint="write COMPILE PLAN 'file' FOR INSERT INTO …")
    path = parser.string("the path of the plan in single quotes")
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    parser.expect("FOR", hint="name what is compiled: FOR INSERT INTO …, or FOR STATEMENT SET BEGIN … END")
    target = _explained(parser, "an INSERT or a STATEMENT SET has a plan that can be run again")
    if not isinstance(target, statements.Insert | statements.StatementSet):
        hint = "compile an INSERT or a STATEMENT SET; a query is run as it is, as its rows go to whoever asks"
        message = "the rows of a query have no table to go to when its plan is run"
        raise UserError("SS1003", message, span=target.span, hint=hint)
    return statements.CompilePlan(
        *extent(parser, first),
        path=path.text,
        path_span=token_span(path),
        target=target,
        if_not_exists=if_not_exists or is_executed,
        is_executed=is_executed,
    )


def _explain(
    parser: QueryParser,
) -> (
    statements.Explain
    | statements.ExplainWhy
    | statements.ExplainUpgrade
    | statements.ExecutePlan
    | statements.DiagnoseJob
):
    first = parser.expect("EXPLAIN")
    if parser.at("STATE", "FOR"):
        parser.expect("STATE", "FOR")
        return replace(show.diagnose_job(parser, first), is_of_state=True)
    if parser.accept("WHY"):
        return _explain_why(parser, first)
    if parser.accept("UPGRADE"):
        return _explain_upgrade(parser, first)
    if parser.at("PLAN", "FOR") and parser.peek(2).token_type is TokenType.STRING:
        parser.expect("PLAN", "FOR")
        return replace(execute_plan(parser, first), is_explained=True)
    details: list[str] = []
    is_of_state, is_run = parser.accept("STATE"), parser.accept("ANALYZE")
    if not is_of_state and not is_run and not parser.accept("PLAN", "FOR"):
        while detail := parser.accept_any(*_DETAILS):
            details.append(detail)
            if not parser.accept(","):
                break
    target = _created(parser) if parser.at_any("CREATE", "REPLACE") else _explained(parser)
    return statements.Explain(
        *extent(parser, first),
        target=target,
        details=tuple(dict.fromkeys(details)),
        is_of_state=is_of_state,
        is_run=is_run,
    )


def _explain_why(parser: QueryParser, first: Token) -> statements.ExplainWhy:
    """Read from behind EXPLAIN WHY: [NOT] query."""
    is_negated = parser.accept("NOT")
    start = parser.token
    hint = "ask for rows: EXPLAIN WHY SELECT … FROM … WHERE …"
    target = _explained(parser, hint)
    if not isinstance(target, statements.Query):
        raise parser.refusal("EXPLAIN WHY explains the rows of a query", start, hint)
    return statements.ExplainWhy(*extent(parser, first), target=target, is_negated=is_negated)


def _explain_upgrade(parser: QueryParser, first: Token) -> statements.ExplainUpgrade:
    """Read from behind EXPLAIN UPGRADE: FOR { JOB 'id' | SAVEPOINT 'path' } AS statement."""
    parser.expect("FOR", hint="write EXPLAIN UPGRADE FOR JOB 'id' AS INSERT INTO …")
    is_savepoint = parser.accept("SAVEPOINT")
    if is_savepoint:
        place = parser.string("the path of the savepoint in single quotes")
    else:
        parser.expect("JOB", hint="name what goes on: JOB 'id' or SAVEPOINT 'path'")
        place = show.job_id(parser)
    parser.expect("AS", hint="the changed statement comes behind AS: AS INSERT INTO …")
    target = _explained(parser, "what goes on from state is an INSERT, a STATEMENT SET or a query")
    return statements.ExplainUpgrade(
        *extent(parser, first),
        target=target,
        place=place.text,
        place_span=token_span(place),
        is_savepoint=is_savepoint,
    )


def _created(parser: QueryParser) -> statements.CreateTable | statements.CreateModel:
    """Read CREATE TABLE or MODEL … AS."""
    first = parser.token
    made = ddl.replace(parser) if parser.at("REPLACE") else ddl.create(parser)
    if isinstance(made, statements.CreateTable | statements.CreateModel) and made.query is not None:
        return made
    hint = "name the query that fills the table: EXPLAIN CREATE TABLE … AS SELECT …"
    raise parser.refusal("of a CREATE only one with a query has a plan", first, hint)


def _explained(parser: QueryParser, hint: str = "") -> statements.WritingStatement:
    first = parser.token
    if parser.at_any("UPDATE", "DELETE", "TRUNCATE") and not hint:
        return changing.changing(parser)
    if parser.at("INSERT"):
        return _insert(parser)
    if parser.accept("EXECUTE") or parser.at("STATEMENT"):
        return _insert(parser) if parser.at("INSERT") else _statement_set(parser, first)
    if parser.accept("BEGIN"):
        parser.expect("STATEMENT", "SET", ";")
        return _set_body(parser, first)
    if parser.at_query() or parser.at("("):
        return _query(parser)
    raise parser.unexpected("a query, INSERT or STATEMENT SET", hint or "details are " + ", ".join(_DETAILS))


def _canary(parser: QueryParser) -> statements.Canary:
    """Read CANARY JOB 'id' [WITH (…)] AS insert."""
    first = parser.expect("CANARY")
    hint = "write CANARY JOB 'id' WITH ('duration' = '10 min') AS INSERT INTO …"
    parser.expect("JOB", hint=hint)
    job = show.job_id(parser)
    options = option_list(parser) if parser.accept("WITH") else ()
    parser.expect("AS", hint=hint)
    start = parser.token
    target = _explained(parser, hint)
    if not isinstance(target, statements.Insert):
        raise parser.refusal("a canary compares what one INSERT writes", start, hint)
    return statements.Canary(
        *extent(parser, first), target=target, job_id=job.text, id_span=token_span(job), options=options
    )


def _verify(parser: QueryParser) -> statements.Verify | statements.VerifyJob:
    first = parser.expect("VERIFY")
    if parser.accept("JOB"):
        job = show.job_id(parser)
        engine = _using(parser)
        return statements.VerifyJob(
            *extent(parser, first), job_id=job.text, id_span=token_span(job), engine=engine
        )
    target = _explained(parser, "a query or an INSERT whose query is verified, or JOB 'id'")
    assert isinstance(target, statements.Query | statements.Insert | statements.StatementSet)
    engine = _using(parser)
    return statements.Verify(*extent(parser, first), target=target, engine=engine)


def _using(parser: QueryParser) -> str:
    """The engine of USING, in small letters; empty when there is none."""
    if not parser.accept("USING"):
        return ""
    engine = parser.accept_any("DUCKDB", "SPARK")
    if engine is None:
        raise parser.unexpected("DUCKDB or SPARK", "the batch engines are DUCKDB and SPARK")
    return engine.lower()


def _set(parser: QueryParser) -> statements.SetOption:
    first = parser.expect("SET")
    if parser.at_end():
        return statements.SetOption(*extent(parser, first), option=None)
    option = read_option(parser) if parser.at_string() else _bare_option(parser)
    return statements.SetOption(*extent(parser, first), option=option)


def _bare_option(parser: QueryParser) -> statements.Option:
    """Read `key = value` as Flink does (ExtendedParser): the key without quotes, the value with or without, and neither with a
    gap inside."""
    key, key_span = _bare_text(parser, until="=")
    if not key or not parser.accept("=") or parser.at_end():
        hint = f"write SET '{key or 'key'}' = 'value'"
        raise UserError("SS1001", "SET needs a key and a value", span=key_span, hint=hint)
    if parser.at_string():
        value = parser.advance()
        return statements.Option(key, value.text, key_span, token_span(value))
    text, span = _bare_text(parser)
    if not text:
        words = parser.source(span.start, span.end)
        hint = f"write SET '{key}' = '{words}'"
        raise UserError("SS1001", "a value of several words must be quoted", span=span, hint=hint)
    return statements.Option(key, text, key_span, span)


def _bare_text(parser: QueryParser, until: str = "") -> tuple[str, Span]:
    """The text up to a token or the end, and its place; empty when quotes or a gap are in it."""
    start = parser.token.start
    while not parser.at_end() and not (until and parser.at(until)):
        parser.advance()
    span = Span(start, max(parser.previous_end, start))
    text = parser.source(span.start, span.end)
    return ("" if re.search(r"[\s'`]", text) else text), span


def _reset(parser: QueryParser) -> statements.ResetOption:
    first = parser.expect("RESET")
    if parser.at_end():
        return statements.ResetOption(*extent(parser, first), key=None)
    if parser.at_string():
        key = parser.advance().text
    else:
        key, span = _bare_text(parser)
        if not key:
            raise UserError("SS1001", "RESET takes one key", span=span, hint="write RESET 'key'")
    return statements.ResetOption(*extent(parser, first), key=key)


_READERS: dict[str, Callable[[QueryParser], statements.Statement]] = {
    "SELECT": _query,
    "WITH": _query,
    "VALUES": _query,
    "INSERT": _insert,
    "UPDATE": changing.update,
    "DELETE": changing.delete,
    "TRUNCATE": changing.truncate,
    "COMPILE": _compile,
    "EXECUTE": _execute,
    "BEGIN": _begin,
    "END": _end,
    "CREATE": ddl.create,
    "DROP": ddl.drop,
    "REPLACE": ddl.replace,
    "ALTER": alter.alter,
    "SET": _set,
    "RESET": _reset,
    "SHOW": show.show,
    "DESCRIBE": show.describe,
    "DESC": show.describe,
    "USE": _use,
    "ANALYZE": analyze,
    "CALL": call,
    "LOAD": load_module,
    "UNLOAD": unload_module,
    "EXPLAIN": _explain,
    "DIAGNOSE": show.diagnose_job,
    "STOP": show.stop_job,
    "VERIFY": _verify,
    "CANARY": _canary,
}
