"""SET, RESET, SHOW, DESCRIBE, EXPLAIN, INSERT, statement sets, and whole scripts."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.parser import parse_script, parse_statement, parse_statements
from sqlstream.planner.dialect.statements import (
    Canary,
    Describe,
    DescribeJob,
    DiagnoseJob,
    Explain,
    ExplainUpgrade,
    ExplainWhy,
    Insert,
    Query,
    ResetOption,
    SetOption,
    Show,
    ShowCheckpoints,
    ShowKind,
    ShowLedger,
    StatementSet,
    StopJob,
    Verify,
    VerifyJob,
)


@pytest.mark.parametrize(
    ("clause", "action"),
    [("", None), (" ON CONFLICT DO DEDUPLICATE", "DEDUPLICATE"), (" on conflict do nothing", "NOTHING")],
)
@pytest.mark.parametrize(
    "query", ["SELECT a FROM s", "SELECT a FROM s JOIN u ON s.a = u.b", "VALUES (1)", "(SELECT 1)"]
)
def test_an_insert_says_which_row_of_a_key_stays(clause: str, action: str | None, query: str) -> None:
    for first in ("INSERT", "EXECUTE INSERT"):
        statement = parse_statement(f"{first} INTO t {query}{clause}")
        assert isinstance(statement, Insert)
        assert (statement.on_conflict.value if statement.on_conflict else None) == action


@pytest.mark.parametrize(
    ("clause", "code", "words"),
    [
        ("ON CONFLICT DO UPDATE", "SS1001", "DEDUPLICATE, NOTHING or ERROR"),
        ("ON CONFLICT", "SS1001", "DO"),
    ],
)
def test_other_answers_to_a_conflict_are_refused(clause: str, code: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        parse_statement(f"INSERT INTO t SELECT 1 {clause}")
    assert (caught.value.code, caught.value.span is not None) == (code, True)


def test_set_keeps_key_value_and_their_positions() -> None:
    found = parse_statement("SET 'a.b' = 'it''s';", offset=10)
    assert isinstance(found, SetOption)
    assert found.option is not None
    assert (found.option.key, found.option.value) == ("a.b", "it's")
    assert (found.option.key_span, found.option.value_span) == (Span(14, 19), Span(22, 29))


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("SET execution.checkpointing.interval = 3s;", "execution.checkpointing.interval", "3s"),
        ("SET table.local-time-zone=Asia/Shanghai", "table.local-time-zone", "Asia/Shanghai"),
        ("set a.b = 10min -- a comment", "a.b", "10min"),
        ("SET a.2b = 3-4x", "a.2b", "3-4x"),
    ],
)
def test_set_without_quotes_takes_what_has_no_gap(text: str, key: str, value: str) -> None:
    found = parse_script(f"{text}\n; SELECT 1")[0]
    assert isinstance(found, SetOption)
    assert found.option is not None
    assert (found.option.key, found.option.value) == (key, value)


@pytest.mark.parametrize("text", ["SET a = 1s; SELECT 1s", "EXPLAIN SELECT 1s", "UPDATE t SET a = 3s"])
def test_a_number_elsewhere_is_none_with_letters_behind_it(text: str) -> None:
    with pytest.raises(UserError, match="malformed number"):
        parse_script(text)


def test_set_and_reset_alone_mean_all() -> None:
    found = parse_script("SET; RESET; RESET 'k'")
    assert isinstance(found[0], SetOption)
    assert found[0].option is None
    assert [s.key for s in found[1:] if isinstance(s, ResetOption)] == [None, "k"]


@pytest.mark.parametrize(
    ("text", "kind", "name", "like"),
    [
        ("SHOW TABLES", ShowKind.TABLES, None, None),
        ("show views like 'a%'", ShowKind.VIEWS, None, ("a%", False, False)),
        ("SHOW FUNCTIONS NOT ILIKE 'x'", ShowKind.FUNCTIONS, None, ("x", True, True)),
        ("SHOW COLUMNS FROM d.t NOT LIKE 'x'", ShowKind.COLUMNS, ("d", "t"), ("x", False, True)),
        ("SHOW CREATE TABLE t", ShowKind.CREATE_TABLE, ("t",), None),
        ("SHOW CREATE VIEW t", ShowKind.CREATE_VIEW, ("t",), None),
        ("SHOW CURRENT DATABASE", ShowKind.CURRENT_DATABASE, None, None),
        ("SHOW JOBS", ShowKind.JOBS, None, None),
    ],
)
def test_show_keeps_kind_name_and_filter(
    text: str, kind: ShowKind, name: tuple[str, ...] | None, like: tuple[str, bool, bool] | None
) -> None:
    found = parse_statement(text)
    assert isinstance(found, Show)
    assert (found.kind, found.name.parts if found.name else None) == (kind, name)
    assert (found.like, found.is_ilike, found.is_negated) == (like or (None, False, False))


@pytest.mark.parametrize(
    ("text", "name", "is_extended"),
    [("DESCRIBE t", "t", False), ("DESC EXTENDED t", "t", True), ("DESC extended", "extended", False)],
)
def test_describe_keeps_its_name(text: str, name: str, is_extended: bool) -> None:
    found = parse_statement(text)
    assert isinstance(found, Describe)
    assert (found.name.parts, found.is_extended) == ((name,), is_extended)


def test_insert_keeps_partition_columns_and_hints() -> None:
    text = "INSERT INTO d.t /*+ OPTIONS('k'='v') */ PARTITION (p = 'x', q = 1) (a, b) SELECT 1, 2"
    found = parse_statement(text)
    assert isinstance(found, Insert)
    assert (found.target.parts, [c.parts[0] for c in found.columns]) == (("d", "t"), ["a", "b"])
    assert [(k.parts[0], v.this) for k, v in found.partition] == [("p", "x"), ("q", "1")]
    assert [(o.key, o.value) for o in found.hints] == [("k", "v")]


@pytest.mark.parametrize("query", ["(SELECT 1)", "VALUES (1)", "WITH a AS (SELECT 1) SELECT * FROM a"])
def test_a_query_in_parentheses_is_no_column_list(query: str) -> None:
    found = parse_statement(f"EXECUTE INSERT INTO t {query}")
    assert isinstance(found, Insert)
    assert found.columns == ()
    assert found.text.startswith("EXECUTE")


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
    ],
)
def test_a_statement_set_holds_its_inserts(text: str) -> None:
    (found,) = parse_script(f"{text};")
    assert isinstance(found, StatementSet)
    assert [i.target.parts for i in found.inserts] == [("a",), ("b",)]
    assert [text[i.span.start : i.span.end] for i in found.inserts] == [i.text for i in found.inserts]


@pytest.mark.parametrize(
    ("text", "details", "target"),
    [
        ("EXPLAIN SELECT 1", (), Query),
        ("EXPLAIN PLAN FOR INSERT INTO t SELECT 1", (), Insert),
        ("EXPLAIN CHANGELOG_MODE, PLAN_ADVICE (SELECT 1)", ("CHANGELOG_MODE", "PLAN_ADVICE"), Query),
        ("EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END", (), StatementSet),
        ("EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END", (), StatementSet),
    ],
)
def test_explain_keeps_details_and_target(text: str, details: tuple[str, ...], target: type) -> None:
    found = parse_statement(text)
    assert isinstance(found, Explain)
    assert (found.details, type(found.target)) == (details, target)


@pytest.mark.parametrize(
    ("text", "is_of_state"),
    [
        ("EXPLAIN STATE SELECT 1", True),
        ("EXPLAIN STATE (SELECT 1)", True),
        ("EXPLAIN STATE INSERT INTO t SELECT 1", True),
        (
            "EXPLAIN STATE EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
            True,
        ),
        ("EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END", False),
        ("EXPLAIN SELECT state FROM state", False),
    ],
)
def test_explain_state_is_told_apart(text: str, is_of_state: bool) -> None:
    (found,) = parse_statements(f"{text};")
    assert isinstance(found, Explain)
    assert (found.is_of_state, found.details) == (is_of_state, ())


@pytest.mark.parametrize(
    ("text", "engine", "target"),
    [
        ("VERIFY SELECT 1", "", Query),
        ("VERIFY SELECT a FROM t USING DuckDB", "duckdb", Query),
        ("VERIFY SELECT t.a FROM t JOIN u USING (a) USING SPARK", "spark", Query),
        ("VERIFY (SELECT a FROM t CROSS JOIN u) USING SPARK", "spark", Query),
        ("VERIFY INSERT INTO t SELECT 1", "", Insert),
        ("VERIFY STATEMENT SET BEGIN INSERT INTO a SELECT 1; END USING spark", "spark", StatementSet),
    ],
)
def test_verify_keeps_engine_and_target(text: str, engine: str, target: type) -> None:
    found = parse_statement(text)
    assert isinstance(found, Verify)
    assert (found.engine, type(found.target)) == (engine, target)


@pytest.mark.parametrize(("words", "is_negated"), [("WHY", False), ("WHY NOT", True)])
def test_explain_why_takes_a_query(words: str, is_negated: bool) -> None:
    found = parse_statement(f"EXPLAIN {words} SELECT a FROM t WHERE a = 1")
    assert isinstance(found, ExplainWhy)
    assert (found.is_negated, found.target.text) == (is_negated, "SELECT a FROM t WHERE a = 1")
    with pytest.raises(UserError) as refused:
        parse_statement(f"EXPLAIN {words} INSERT INTO t SELECT 1")
    assert refused.value.message == "EXPLAIN WHY explains the rows of a query"
    assert refused.value.span is not None


def test_verify_job_has_the_id_and_its_place() -> None:
    text = "VERIFY JOB 'ab' USING spark"
    found = parse_statement(text)
    assert isinstance(found, VerifyJob)
    assert (found.job_id, found.engine) == ("ab", "spark")
    assert text[found.id_span.start : found.id_span.end] == "'ab'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VERIFY SELECT 1 USING flink", 'unexpected "flink", expected DUCKDB or SPARK'),
        ("VERIFY SHOW TABLES", 'unexpected "SHOW", expected a query, INSERT or STATEMENT SET'),
        ("VERIFY JOB 7", 'unexpected "7", expected the id of a job in single quotes'),
    ],
)
def test_verify_says_what_it_takes(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_statement(text)
    assert refused.value.message == message


def test_positions_count_from_the_start_of_the_script() -> None:
    script = "SELECT 1;\n-- ;\nSELECT a, `b;c` FROM t;"
    second = parse_script(script)[1]
    assert isinstance(second, Query)
    columns = [c.meta["span"] for c in second.query.find_all(exp.Column)]
    assert [script[s.start : s.end] for s in columns] == ["a", "`b;c`"]
    assert second.text == script[second.span.start : second.span.end]


def test_a_bad_statement_does_not_hide_the_good_ones_before_it() -> None:
    statements = parse_statements("SELECT 1; SELECT 2; SELCT 3; SELECT 4")
    assert [next(statements).text, next(statements).text] == ["SELECT 1", "SELECT 2"]
    with pytest.raises(UserError) as raised:
        next(statements)
    assert raised.value.span == Span(20, 25)


def test_a_job_is_named_by_its_id_in_quotes() -> None:
    described, stopped, diagnosed, kept = parse_script(
        "DESC JOB 'a1'; STOP JOB 'b2'; diagnose job 'c3'; explain state for job 'd4';"
    )
    assert isinstance(diagnosed, DiagnoseJob)
    assert (diagnosed.job_id, diagnosed.id_span, diagnosed.is_of_state) == ("c3", Span(43, 47), False)
    assert isinstance(kept, DiagnoseJob)
    assert (kept.job_id, kept.id_span, kept.is_of_state) == ("d4", Span(71, 75), True)
    assert isinstance(described, DescribeJob)
    assert (described.job_id, described.id_span) == ("a1", Span(9, 13))
    assert isinstance(stopped, StopJob)
    assert (stopped.job_id, stopped.id_span) == ("b2", Span(24, 28))


@pytest.mark.parametrize(
    ("text", "has_savepoint", "is_drained"),
    [
        ("STOP JOB 'a1'", False, False),
        ("STOP JOB 'a1' WITH SAVEPOINT", True, False),
        ("stop job 'a1' with savepoint with drain", True, True),
    ],
)
def test_a_job_is_stopped_with_or_without_a_savepoint(
    text: str, has_savepoint: bool, is_drained: bool
) -> None:
    found = parse_statement(text)
    assert isinstance(found, StopJob)
    assert (found.job_id, found.has_savepoint, found.is_drained) == ("a1", has_savepoint, is_drained)


@pytest.mark.parametrize(("word", "kind"), [("CHECKPOINTS", ShowCheckpoints), ("LEDGER", ShowLedger)])
def test_checkpoints_and_the_ledger_are_shown_of_one_job_or_of_all(
    word: str, kind: type[ShowCheckpoints | ShowLedger]
) -> None:
    of_all, of_one = parse_script(f"SHOW {word}; SHOW {word} FOR JOB 'a1';")
    assert isinstance(of_all, kind)
    assert isinstance(of_one, kind)
    assert (of_all.job_id, of_all.id_span) == ("", None)
    begin = 2 * len(word) + 21
    assert (of_one.job_id, of_one.id_span) == ("a1", Span(begin, begin + 4))


def test_a_table_may_be_called_job() -> None:
    found = parse_statement("DESCRIBE job")
    assert isinstance(found, Describe)
    assert found.name.parts == ("job",)


@pytest.mark.parametrize("text", ["", " ; ", "-- nothing", "SELECT 1; SELECT 2"])
def test_parse_statement_wants_exactly_one(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_statement(text)
    assert raised.value.span is not None


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMPORARY DATABASE d",
        "CREATE MATERIALIZED TABLE t",
    ],
)
def test_statements_that_are_not_built_are_named_and_refused(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_statement(text)
    assert raised.value.code == "SS1002"
    assert raised.value.span is not None


def test_explain_upgrade_names_a_job_or_a_savepoint_and_the_statement() -> None:
    text = "EXPLAIN UPGRADE FOR JOB 'a1' AS INSERT INTO t SELECT 1"
    found = parse_statement(text)
    assert isinstance(found, ExplainUpgrade)
    assert (found.place, found.place_span, found.is_savepoint) == ("a1", Span(24, 28), False)
    assert isinstance(found.target, Insert)
    assert found.target.text == "INSERT INTO t SELECT 1"
    saved = parse_statement(
        "EXPLAIN UPGRADE FOR SAVEPOINT '/s' AS STATEMENT SET BEGIN INSERT INTO t SELECT 1; END"
    )
    assert isinstance(saved, ExplainUpgrade)
    assert (saved.place, saved.is_savepoint, type(saved.target)) == ("/s", True, StatementSet)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("EXPLAIN UPGRADE JOB 'a' AS SELECT 1", "write EXPLAIN UPGRADE FOR JOB 'id' AS INSERT INTO …"),
        ("EXPLAIN UPGRADE FOR 'a' AS SELECT 1", "name what goes on: JOB 'id' or SAVEPOINT 'path'"),
        (
            "EXPLAIN UPGRADE FOR JOB 'a' INSERT INTO t SELECT 1",
            "the changed statement comes behind AS: AS INSERT INTO …",
        ),
        (
            "EXPLAIN UPGRADE FOR JOB 'a' AS DROP TABLE t",
            "what goes on from state is an INSERT, a STATEMENT SET or a query",
        ),
    ],
)
def test_a_wrong_explain_upgrade_says_how_to_write_it(text: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_statement(text)
    assert refused.value.hint == hint


def test_canary_names_a_job_and_an_insert_with_options_between() -> None:
    found = parse_statement("CANARY JOB 'a1' WITH ('duration' = '1 s') AS INSERT INTO t SELECT 1")
    assert isinstance(found, Canary)
    assert (found.job_id, found.id_span, found.target.text) == ("a1", Span(11, 15), "INSERT INTO t SELECT 1")
    assert [(o.key, o.value) for o in found.options] == [("duration", "1 s")]
    bare = parse_statement("CANARY JOB 'a1' AS INSERT INTO t SELECT 1")
    assert isinstance(bare, Canary)
    assert bare.options == ()
    for text in (
        "CANARY 'a1' AS INSERT INTO t SELECT 1",
        "CANARY JOB 'a1' AS SELECT 1",
        "CANARY JOB 'a1' AS EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END",
    ):
        with pytest.raises(UserError) as refused:
            parse_statement(text)
        assert "CANARY JOB 'id'" in refused.value.hint
