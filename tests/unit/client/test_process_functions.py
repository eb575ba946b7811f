"""Process table functions in sessions: made, described, called and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from session_runs import refused, run

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.explain import explain_plan_of
from sqlstream.planner.bind.expressions.user_functions import user_function
from sqlstream.planner.bind.relations import process_table
from sqlstream.planner.dialect.parser import parse_statement, parse_statements

MODULE = (Path(__file__).parents[2] / "process_functions.py").read_text()
TABLES = """
CREATE VIEW t AS SELECT * FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) AS t (k, v);
CREATE TABLE timed (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE VIEW changing AS SELECT k, COUNT(*) AS v FROM t GROUP BY k;
"""


NAMES = """Numbered Wandering Doubled Paired Broken Recent Summed SummedByRow Sifted SiftedByRow Freed
Extremes ExtremesRetracted ExtremesInBatches ExtremesRetractedInBatches"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("functions") / "shipped_processes.py"
    path.write_text(MODULE)
    cluster = LocalClusterClient()
    made = Session(cluster, {"python.files": str(path)})
    for name in NAMES.split():
        run(made, f"CREATE FUNCTION {name} AS 'shipped_processes.{name}' LANGUAGE PYTHON")
    run(made, TABLES)
    yield made
    cluster.close()


def test_calls_are_by_name_and_by_position(session: Session) -> None:
    rows = [("a", 10), ("b", 10), ("a", 11)]
    for call in (
        "numbered(input => TABLE t PARTITION BY k, first => 10)",
        "numbered(first => 5 + 5, uid => 'u', input => TABLE t PARTITION BY (k))",
        "numbered(TABLE t PARTITION BY k, 10)",
        "default_database.numbered(TABLE (SELECT * FROM t) PARTITION BY k, CAST(10 AS SMALLINT), DEFAULT, 'u')",
        "TABLE(Numbered(TABLE t PARTITION BY k, 10))",
    ):
        assert run(session, f"SELECT * FROM {call}") == rows, call
    assert run(session, "SELECT * FROM numbered(TABLE t, DEFAULT)") == [(1,), (2,), (3,)]
    query = "SELECT s.x, y + 1 FROM numbered(TABLE t PARTITION BY k, v => 1) AS s (x, y)"
    assert refused(session, query)[0] == "SS3430"
    query = query.replace(", v => 1", "")
    assert run(session, query) == [("a", 2), ("b", 2), ("a", 3)]
    both = "numbered(TABLE t PARTITION BY (k, v)) AS s JOIN numbered(TABLE t PARTITION BY k, uid => '2') AS r ON s.k = r.k"
    assert sorted(run(session, f"SELECT s.k, s.v, s.n, r.n FROM {both} WHERE s.v = 3")) == [
        ("a", 3, 1, 1),
        ("a", 3, 1, 2),
    ]
    assert run(session, "SELECT * FROM doubled(TABLE t) WHERE k = 'b'") == [
        ("b", 2, "first"),
        ("b", 2, "second"),
    ]
    pairs = run(
        session, "SELECT * FROM paired(left => TABLE t PARTITION BY k, right => TABLE t PARTITION BY k)"
    )
    assert sorted(pairs, key=str) == [
        ("a", "a", "left", None), ("a", "a", "left", None), ("a", "a", "right", 1), ("a", "a", "right", 2),
        ("b", "b", "left", None), ("b", "b", "right", 1),
    ]  # fmt: skip


def test_a_function_over_updates_puts_out_a_changelog(session: Session) -> None:
    """As the GROUP BY that it stands for."""
    run(session, "CREATE TEMPORARY VIEW counted AS SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k")
    run(
        session,
        "CREATE TEMPORARY VIEW per_n AS SELECT n, SUM(n) AS total, COUNT(*) AS c FROM counted GROUP BY n",
    )
    expected = sorted(row[:3] for row in final(session, "SELECT n, c, total FROM per_n"))
    for name in ("summed", "summedbyrow"):
        assert sorted(final(session, f"SELECT * FROM {name}(TABLE counted PARTITION BY n)")) == expected
    code, message, _ = refused(
        session,
        "SELECT * FROM summed(TABLE (SELECT k, v AS n, ts FROM timed) PARTITION BY k, on_time => DESCRIPTOR(ts))",
    )
    assert (code, message) == (
        "SS3437",
        "summed changes rows that it has put out, and its output has no rowtime",
    )


def test_the_outputs_of_one_call_are_those_of_one_operator(session: Session) -> None:
    """As the queries that they stand for."""
    odd = "SELECT k, v, what FROM {}(TABLE t PARTITION BY k, output => 'odd')"
    for name in ("sifted", "siftedbyrow"):
        assert sorted(run(session, odd.format(name))) == [("a", 1, "odd"), ("a", 3, "odd")]
        assert sorted(run(session, f"SELECT * FROM {name}(TABLE t PARTITION BY k)")) == [
            ("a", 1),
            ("a", 2),
            ("b", 1),
        ]
    assert run(session, "SELECT v FROM sifted(TABLE t PARTITION BY k, DEFAULT, 'u', 'odd') WHERE v > 1") == [
        (3,)
    ]
    both = f"{odd.format('sifted')} UNION ALL SELECT k, n, CAST(NULL AS STRING) FROM sifted(TABLE t PARTITION BY k)"
    (statement,) = parse_statements(both)
    assert "ProcessTableFunction[2] -> (ProcessOutput[3], ProcessOutput[4]" in explain_plan_of(
        statement, session
    )
    assert {row[:2] for row in run(session, both)} == {("a", 1), ("a", 2), ("a", 3), ("b", 1)}
    # A call of the same rows by other keys is another one.
    other = both.replace("FROM sifted(TABLE t PARTITION BY k)", "FROM sifted(TABLE t PARTITION BY (k, v))")
    assert refused(session, other)[0] == "SS3433"
    run(session, "SET 'table.optimizer.reuse-sub-plan-enabled' = 'false'")
    try:
        assert {row[:2] for row in run(session, both)} == {("a", 1), ("a", 2), ("a", 3), ("b", 1)}
    finally:
        run(session, "RESET 'table.optimizer.reuse-sub-plan-enabled'")


def test_a_side_output_only_adds_rows_beside_one_that_deletes(session: Session) -> None:
    run(session, "CREATE TEMPORARY VIEW counts AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    changed = "SELECT n, sign FROM summedbyrow(TABLE counts PARTITION BY n, output => 'changed')"
    # A function that takes no updates reads it, and numbers as many rows.
    numbered = (
        f"SELECT k, MAX(n) FROM numbered(TABLE (SELECT n AS k FROM ({changed})) PARTITION BY k) GROUP BY k"
    )
    counted = f"SELECT n, COUNT(*) FROM ({changed}) GROUP BY n"
    assert sorted(final(session, numbered)) == sorted(final(session, counted))
    assert sorted(final(session, f"SELECT n, SUM(sign) FROM ({changed}) GROUP BY n")) == [(1, 1), (2, 1)]
    both = f"SELECT n, c FROM summedbyrow(TABLE counts PARTITION BY n) UNION ALL {changed} WHERE sign > 5"
    assert sorted(final(session, both)) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    "name", ["extremes", "extremesretracted", "extremesinbatches", "extremesretractedinbatches"]
)
def test_a_function_that_changes_its_rows_makes_the_table_that_is_computed_anew(
    session: Session, name: str, tmp_path: Path
) -> None:
    run(
        session,
        "CREATE TEMPORARY VIEW IF NOT EXISTS v AS SELECT MOD(v * 7, 5) AS k, v FROM t UNION ALL SELECT 1, v * 3 FROM t",
    )
    anew = (
        "SELECT k, MIN(v) AS low, MAX(v) AS high, COUNT(*) AS n FROM v GROUP BY k HAVING MOD(SUM(v), 2) = 1"
    )
    changed = f"SELECT * FROM {name}(TABLE v PARTITION BY k)"
    expected = sorted(final(session, anew))
    assert expected
    assert sorted(final(session, changed)) == expected
    high = "SELECT n, SUM(high), COUNT(*) FROM ({}) GROUP BY n"
    assert sorted(final(session, high.format(changed))) == sorted(final(session, high.format(anew)))
    joined = "SELECT a.k, low FROM ({}) AS a JOIN v ON a.k = v.k AND high = v"
    assert sorted(final(session, joined.format(changed))) == sorted(final(session, joined.format(anew)))
    run(
        session,
        "CREATE TEMPORARY TABLE extreme (k INT, low BIGINT, high BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)"
        f" WITH ('connector' = 'duckdb', 'path' = '{tmp_path}/x.duckdb', 'table-name' = 'extreme')",
    )
    insert = f"INSERT INTO extreme {changed}"
    if "retracted" in name:
        # It has no key: several rows of it could have one.
        assert refused(session, insert)[0] == "SS3016"
        insert += " ON CONFLICT DO DEDUPLICATE"
    run(session, insert)
    assert sorted(run(session, "SELECT * FROM extreme")) == expected
    run(session, "DROP TEMPORARY TABLE extreme")


def test_what_replaces_rows_has_their_key_and_no_first_halves_of_updates(session: Session) -> None:
    (statement,) = parse_statements("SELECT high FROM extremes(TABLE t PARTITION BY k)")
    plan = explain_plan_of(statement, session)
    assert "ChangelogNormalize(key=[k], changes=all) changelogMode=[I,UB,UA,D]" in plan
    assert "uid=extremes) changelogMode=[I,UA,D]" in plan
    (statement,) = parse_statements(
        "SELECT n, COUNT(*) FROM extremesretracted(TABLE t PARTITION BY k) GROUP BY n"
    )
    plan = explain_plan_of(statement, session)
    assert "uid=extremesretracted) changelogMode=[I,UB,UA,D]" in plan
    shown = dict(run(session, "DESCRIBE FUNCTION EXTENDED extremes"))
    assert shown["changelog mode"] == "UPSERT [I,UA,D]"


def final(session: Session, query: str) -> list[tuple[object, ...]]:
    """The rows of the final table: those that run gives have their kinds behind them."""
    table: Counter[tuple[object, ...]] = Counter()
    for *row, kind in run(session, query):
        table[tuple(row)] += 1 if kind in (0, 2) else -1
    return list(table.elements())


def test_functions_over_functions_and_views_of_them(session: Session) -> None:
    run(session, "CREATE TEMPORARY VIEW ordered AS SELECT * FROM numbered(TABLE t PARTITION BY k, 10)")
    nested = "WITH a AS (SELECT k, n + 1 AS m FROM ordered) SELECT * FROM wandering(TABLE a PARTITION BY k)"
    assert refused(session, nested.replace("wandering", "numbered"))[0] == "SS3433"
    assert refused(session, nested)[:2] == (
        "SS5130",
        "Python function wandering.eval failed for ({'k': 'a', 'm': 11}): KeyError: 'v'",
    )
    assert [k for k, _ in run(session, nested.replace("AS m", "AS v"))] == ["a", "b", "a"]
    assert run(session, "SELECT MAX(n) FROM ordered")[-1][0] == 11


@pytest.mark.parametrize(
    ("query", "code", "said", "place"),
    [
        ("SELECT * FROM wandering(TABLE t)", "SS3431", "needs PARTITION BY", "TABLE t"),
        ("SELECT * FROM doubled(TABLE t PARTITION BY k)", "SS3431", "takes no PARTITION BY", "TABLE t PARTITION BY k"),
        ("SELECT * FROM numbered(TABLE t PARTITION BY z)", "SS2003", '"z" does not exist', "z"),
        ("SELECT * FROM numbered(TABLE t, x => 1)", "SS3430", 'no argument "x"', "x => 1"),
        ("SELECT * FROM numbered(TABLE t, 1, DEFAULT, 'u', 5)", "SS3430", "at most 4 arguments", "5"),
        ("SELECT * FROM numbered(input => TABLE t, 1)", "SS3430", "without a name", "1"),
        ("SELECT * FROM numbered(TABLE t, TABLE t)", "SS3430", "is a value, not a table", "TABLE t"),
        ("SELECT * FROM numbered(input => 1)", "SS3430", "is a table, not a value", "input => 1"),
        ("SELECT * FROM numbered(first => 1)", "SS3430", 'needs its table "input"', ""),
        ("SELECT * FROM numbered(TABLE t, first => 1, first => 2)", "SS1001", "given twice", "first => 2"),
        ("SELECT * FROM numbered(TABLE t, 'x')", "SS3432", "of type BIGINT, not CHAR(1)", "'x'"),
        ("SELECT * FROM numbered(TABLE t, NULL)", "SS3432", "is not NULL", "NULL"),
        ("SELECT * FROM numbered(TABLE t, CAST(RAND() AS INT))", "SS3432", "is a constant", "CAST(RAND() AS INT)"),
        ("SELECT * FROM broken(TABLE t PARTITION BY k)", "SS3430", 'needs its argument "how"', ""),
        ("SELECT * FROM freed(TABLE t)", "SS3561", "replaces rows by their key, and there is none", ""),
        ("SELECT * FROM numbered(TABLE (SELECT * FROM extremes(TABLE t PARTITION BY k)))", "SS3011", "delete changes", ""),
        ("SELECT * FROM extremes(TABLE timed PARTITION BY k, on_time => DESCRIPTOR(ts))", "SS3437", "no rowtime", ""),
        ("SELECT * FROM sifted(TABLE t PARTITION BY k, output => 'od')", "SS3560", 'no output "od"', "output => 'od'"),
        ("SELECT * FROM sifted(TABLE t PARTITION BY k, output => 1)", "SS3560", "named by a text", "output => 1"),
        ("SELECT * FROM numbered(TABLE t, output => 'x')", "SS3430", 'no argument "output"', "output => 'x'"),
        ("SELECT * FROM numbered(TABLE t, uid => 1)", "SS3430", "uid is a text", "uid => 1"),
        ("SELECT * FROM numbered(TABLE t, on_time => DESCRIPTOR(v))", "SS3434", "takes a row time", "on_time => DESCRIPTOR(v)"),
        ("SELECT * FROM numbered(TABLE t, on_time => v)", "SS3430", "is a DESCRIPTOR, not a value", "on_time => v"),
        ("SELECT * FROM recent(TABLE t PARTITION BY k)", "SS3434", "recent needs a row time", ""),
        ("SELECT * FROM recent(TABLE t PARTITION BY k, on_time => DESCRIPTOR(z))", "SS2003", 'no column "z"', ""),
        ("SELECT * FROM paired(TABLE t PARTITION BY k, TABLE t PARTITION BY v)", "SS3431", "have the types", ""),
        ("SELECT numbered(1)", "SS2030", "it reads tables", "numbered(1)"),
        ("SELECT * FROM numbered(1)", "SS2030", "it reads tables", "numbered(1)"),
        ("SELECT * FROM UPPER(TABLE t)", "SS2030", "UPPER is a scalar function", "UPPER"),
        ("SELECT * FROM nmbered(TABLE t)", "SS2005", '"nmbered" does not exist', "nmbered"),
        ("SELECT * FROM numbered(TABLE changing PARTITION BY k)", "SS3011", "update and delete changes", ""),
        ("SELECT * FROM numbered(TABLE t PARTITION BY k ORDER BY v)", "SS3436", '"v" is none', "v"),
        ("SELECT * FROM numbered(TABLE timed ORDER BY ts DESC, v, first => 1)", "SS3436", "ascending time", "ts DESC"),
        ("SELECT * FROM numbered(TABLE timed ORDER BY ts + INTERVAL '1' SECOND)", "SS3436", "takes columns", ""),
        ("SELECT * FROM doubled(TABLE timed ORDER BY ts)", "SS3436", "takes no ORDER BY", "TABLE timed ORDER BY ts"),
    ],
)  # fmt: skip
def test_calls_without_a_meaning_are_refused(
    session: Session, query: str, code: str, said: str, place: str
) -> None:
    found = refused(session, query)
    assert found[0] == code, found
    assert said in found[1]
    assert not place or found[2] == place


def test_a_function_is_described(session: Session) -> None:
    shown = dict(run(session, "DESCRIBE FUNCTION EXTENDED wandering"))
    assert shown["table input"] == "SET_SEMANTIC_TABLE"
    assert (shown["state value"], shown["state map"]) == (
        "VALUE BIGINT",
        "MAP MAP<BIGINT, STRING>, ttl 3600000 ms",
    )
    assert shown["state list"] == "LIST ARRAY<ARRAY<BIGINT>>"
    assert shown["result"] == "ROW<`EXPR$0` STRING>"
    ((text,),) = run(session, "SHOW CREATE FUNCTION numbered")
    assert "shipped_processes.Numbered" in text


def test_a_side_output_that_is_added_leaves_the_state_of_others(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the function, and that of what reads its rows."""
    call = "sifted(TABLE timed PARTITION BY k, on_time => DESCRIPTOR(ts))"
    text = f"SELECT MOD(n, 2), COUNT(*), MAX(rowtime) FROM {call} GROUP BY MOD(n, 2)"
    now = states_of(session, text)
    side = states_of(
        session, text.replace("(ts))", "(ts), output => 'third')").replace("n, 2", "`EXPR$0`, 2")
    )

    def before(node: Any, namespace: Any) -> Any:
        found = user_function(node, namespace)
        process = replace(found.ref.process, outputs=())
        return replace(found, ref=replace(found.ref, process=process, output_types=()))

    monkeypatch.setattr(process_table, "user_function", before)
    assert states_of(session, text) == now
    assert len(set(now) - set(side)) == 1  # that of GROUP BY


def states_of(session: Session, text: str) -> list[str]:
    """The identities of the states of the operators of a query, in their order."""
    graph = session.compile(parse_statement(text)).job_graph
    states = [operator.state for vertex in graph.vertices for operator in vertex.operators]
    return [state.id for state in states if state is not None]


def test_what_explain_says_of_the_state(session: Session) -> None:
    (statement,) = parse_statements("SELECT * FROM numbered(TABLE t PARTITION BY k, uid => 'n')")
    plan = explain_plan_of(statement, session)
    assert (
        "ProcessTableFunction(function=default_catalog.default_database.numbered, partitionBy=[input=[k]], uid=n)"
        in plan
    )


def test_a_batch_is_run_as_a_stream(session: Session) -> None:
    run(session, "SET 'execution.runtime-mode' = 'batch'")
    assert run(session, "SELECT * FROM numbered(TABLE t PARTITION BY k)") == [("a", 1), ("b", 1), ("a", 2)]
    run(session, "SET 'execution.batch.engine' = 'duckdb'")
    try:
        code, message, _ = refused(session, "SELECT * FROM numbered(TABLE t PARTITION BY k)")
    finally:
        run(session, "RESET 'execution.runtime-mode'; RESET 'execution.batch.engine'")
    assert (code, "process table function numbered" in message) == ("SS3301", True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("result_type = 'NONSENSE'", "is no type"),
        ("result_type = 'ROW<a INT, a INT>'", 'field "a" is defined twice'),
        ("m = MapState('ROW<a INT>', 'INT')", "a key of the map"),
        ("v = ValueState('VARIANT')", "is no type for state"),
        ("input = TableArgument(ROW_SEMANTIC_TABLE); v = ValueState('INT')", "is declared wrongly"),
        ("changelog_mode = 'UPSERT'", "changelog_mode is one of ChangelogMode.INSERT_ONLY"),
        ("changelog_mode = ChangelogMode.UPSERT; deletes_rows = True", "leave one of them out"),
        (
            "changelog_mode = ChangelogMode.UPSERT; input = TableArgument(ROW_SEMANTIC_TABLE)",
            "with UPSERT rows have keys",
        ),
        (
            "deletes_rows = True; input = TableArgument(SET_SEMANTIC_TABLE, PASS_COLUMNS_THROUGH)",
            "only add rows",
        ),
        ("output = SideOutput('INT')", '"output" has a meaning of its own'),
        ("late = SideOutput('NONSENSE')", "is no type for output"),
        ("late = SideOutput('ROW<a INT, a INT>')", 'field "a" is defined twice'),
    ],
)
def test_a_class_without_a_meaning_is_refused(session: Session, tmp_path: Path, body: str, said: str) -> None:
    path = tmp_path / "wrong_process.py"
    lines = ["from sqlstream import *", "class Wrong(ProcessTableFunction):", "    result_type = 'ROW<a INT>'",
             "    input = TableArgument(SET_SEMANTIC_TABLE)", f"    {body}", "    def eval(self, ctx, row): ...", ""]  # fmt: skip
    path.write_text("\n".join(lines))
    code, message, _ = refused(
        session, f"CREATE FUNCTION wrong AS 'wrong_process.Wrong' LANGUAGE PYTHON USING FILE '{path}'"
    )
    assert code in ("SS2031", "SS2032")
    assert said in message
