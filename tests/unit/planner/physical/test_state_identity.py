"""By what the state of operators is found: the same at each parallelism, and told apart by the tables that it feeds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from plan_harness import compile_script

from sqlstream.catalog import SessionCatalog
from sqlstream.errors import Span
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.planner.bind.context import BindContext
from sqlstream.runtime.connectors.duckdb.connector import DuckDb
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.generators.nexmark import Nexmark
from sqlstream.runtime.formats.csv import Csv
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorDescriptor,
    OptionDescriptor,
    OptionType,
    Place,
    Reading,
)

QUERIES = sorted((Path(__file__).resolve().parents[4] / "queries" / "nexmark").glob("*.sql"))
CONNECTORS = {made.descriptor.identifier: made.descriptor for made in (Nexmark, DuckDb, Filesystem)}
FORMATS = {"csv": Csv.descriptor}
DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, w BIGINT) WITH ('connector' = 'stream');
CREATE TABLE narrow (k BIGINT, v INT) WITH ('connector' = 'stream');
CREATE TABLE one (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE two (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""
COUNTS = "SELECT k, COUNT(*) FROM s GROUP BY k"


def states(sql: str, parallelism: int = 1) -> list[StateIdentity]:
    (plan,) = compile_script(DDL + sql, {"parallelism.default": str(parallelism)})
    return [n.state for n in plan.stream_graph.nodes if n.state is not None]


def aggregate(sql: str) -> StateIdentity:
    (found,) = (s for s in states(sql) if "(" in s.sql)
    return found


@pytest.mark.parametrize("query", QUERIES, ids=[q.stem for q in QUERIES])
def test_identities_and_uids_are_the_same_at_every_parallelism(query: Path) -> None:
    found = []
    for parallelism in ("1", "2", "4"):
        plans = compile_script(query.read_text(), {"parallelism.default": parallelism}, CONNECTORS, FORMATS)
        found.append([(n.uid, n.state) for plan in plans for n in plan.stream_graph.nodes])
    assert found[0] == found[1] == found[2]
    assert any(state is not None for _, state in found[0])


def test_a_state_is_that_of_a_statement_by_the_tables_that_it_reaches() -> None:
    sql = f"EXECUTE STATEMENT SET BEGIN INSERT INTO two {COUNTS}; INSERT INTO one {COUNTS}; END"
    found = aggregate(sql)
    assert found.title == "GROUP BY k (COUNT(*)) of INSERT INTO one, two"
    assert aggregate(COUNTS).title == "GROUP BY k (COUNT(*)) of SELECT"
    assert aggregate(COUNTS).id == found.id


def test_a_line_is_that_of_the_statement() -> None:
    context = BindContext(SessionCatalog(), text="SELECT a\nFROM t", text_start=7)
    assert [context.line_of(Span(at, at + 1)) for at in (6, 7, 15, 16, 21, 22)] == [0, 1, 1, 2, 2, 0]
    assert dataclasses.replace(context, text="").line_of(Span(7, 8)) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (COUNTS, "SELECT k, COUNT(*) FROM s GROUP BY k, v"),
        ("SELECT k, SUM(v) FROM s GROUP BY k", "SELECT k, SUM(w) FROM s GROUP BY k"),
        ("SELECT k, SUM(v) FROM s GROUP BY k", "SELECT k, SUM(v) FROM narrow GROUP BY k"),
        ("SELECT k, COUNT(v) FROM s GROUP BY k", "SELECT k, COUNT(DISTINCT v) FROM s GROUP BY k"),
        (
            "SELECT k, COUNT(*) FILTER (WHERE v > 1) FROM s GROUP BY k",
            "SELECT k, COUNT(*) FILTER (WHERE v > 2) FROM s GROUP BY k",
        ),
        (COUNTS, "SELECT k, COUNT(*) FROM (SELECT k FROM s UNION ALL SELECT k FROM s) GROUP BY k"),
        (COUNTS, "SELECT k, COUNT(*) FROM (SELECT k FROM s LIMIT 9) GROUP BY k"),
        (
            "SELECT k, COUNT(*) FROM s WHERE k = 1 AND w = 2 GROUP BY k",
            "SELECT k, COUNT(*) FROM s WHERE k = 1 GROUP BY k",
        ),
        (
            "SELECT k, COUNT(*) FROM (VALUES (1)) AS t (k) GROUP BY k",
            "SELECT k, COUNT(*) FROM (VALUES (DATE '1970-01-02')) AS t (k) GROUP BY k",
        ),
        (
            "SELECT k, COUNT(*) FROM s WHERE w > 1 GROUP BY k",
            "SELECT k, COUNT(*) FROM s WHERE w > 1.0 GROUP BY k",
        ),
    ],
)
def test_another_meaning_has_another_identity(before: str, after: str) -> None:
    assert aggregate(before).id != aggregate(after).id


def test_conditions_on_keys_are_told_beside_the_identity() -> None:
    wide, narrow = aggregate(COUNTS), aggregate("SELECT k, COUNT(*) FROM s WHERE k > 1 GROUP BY k")
    assert (wide.id, wide.conditions) == (narrow.id, ())
    assert len(narrow.conditions) == 1
    by_the_time = aggregate("SELECT k, COUNT(*) FROM s WHERE k > RAND() GROUP BY k")
    assert (by_the_time.conditions, by_the_time.id == wide.id) == ((), False)


TIMED = "CREATE TABLE t (k BIGINT, v BIGINT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'stream');"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t {}) WHERE n <= 2",
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY rt DESC) AS n FROM t {}) WHERE n = 1",
    ],
    ids=["rank", "deduplicate"],
)
def test_conditions_on_keys_are_told_beside_the_identity_of_ranks(sql: str) -> None:
    wide, narrow, of_value = (states(TIMED + sql.format(c))[1] for c in ("", "WHERE k > 1", "WHERE v > 1"))
    assert (wide.id, wide.conditions, len(narrow.conditions)) == (narrow.id, (), 1)
    assert (of_value.conditions, of_value.id == wide.id) == ((), False)


WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(rt), INTERVAL '1' MINUTE))"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, COUNT(*) FROM {WINDOWS} {{}} GROUP BY k, window_start, window_end",
        f"SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v) AS n"
        f" FROM {WINDOWS} {{}}) WHERE n <= 2",
    ],
)
def test_conditions_on_keys_are_part_of_the_identity_of_what_writes_all_keys_when_a_window_closes(
    sql: str,
) -> None:
    wide, narrow = (aggregate(TIMED + sql.format(c)) for c in ("", "WHERE k > 1"))
    assert (narrow.conditions, narrow.id == wide.id) == ((), False)


@pytest.mark.parametrize(
    ("sql", "is_of_the_zone"),
    [
        ("SELECT CAST(at AS DATE), COUNT(*) FROM instants GROUP BY CAST(at AS DATE)", True),
        ("SELECT COUNT(*) FROM instants WHERE CAST(at AS STRING) LIKE '2%'", True),
        ("SELECT COUNT(*) FROM instants WHERE CAST(many AS STRING) LIKE '2%'", True),
        ("SELECT FROM_UNIXTIME(k), COUNT(*) FROM instants GROUP BY FROM_UNIXTIME(k)", True),
        ("SELECT at, COUNT(*) FROM instants GROUP BY at", False),
        ("SELECT CAST(k AS STRING), COUNT(*) FROM instants GROUP BY CAST(k AS STRING)", False),
    ],
)
def test_what_is_computed_in_the_time_zone_of_the_session_means_another_thing_in_another_one(
    sql: str, is_of_the_zone: bool
) -> None:
    columns = "k BIGINT, at TIMESTAMP_LTZ(3), many ARRAY<TIMESTAMP_LTZ(3)>"
    ddl = f"CREATE TABLE instants ({columns}) WITH ('connector' = 'stream');"
    zone = "SET 'table.local-time-zone' = 'Europe/Berlin';"
    assert (aggregate(ddl + sql).id != aggregate(ddl + zone + sql).id) is is_of_the_zone


FILES = "CREATE TABLE f (k BIGINT, v BIGINT) WITH ('connector' = 'files', 'path' = '{path}'{more});"
ROWS = "CREATE TABLE f (k BIGINT, v BIGINT) WITH ('connector' = 'counted', 'path' = '{path}'{more});"


def position(ddl: str, condition: str = "", path: str = "a", more: str = "") -> str:
    options = tuple(
        OptionDescriptor(key, OptionType.STRING, "Some.") for key in ("path", "monitor", "password")
    )
    connectors = {
        "files": ConnectorDescriptor(
            "files",
            options=options,
            reading=Reading(boundedness=Boundedness(True, unless_set="monitor")),
            place=Place(options=("path",)),
        ),
        "counted": ConnectorDescriptor(
            "counted", options=options, reading=Reading(filters=True, counts_rows=True)
        ),
    }
    sql = f"{ddl.format(path=path, more=more)} SELECT k, COUNT(*) FROM f {condition} GROUP BY k;"
    (plan,) = compile_script(sql, {}, connectors)
    return next(n.state.id for n in plan.stream_graph.nodes if n.state and "position" in n.state.sql)


def test_a_position_in_bounded_files_is_of_their_path() -> None:
    assert position(FILES) == position(FILES, "WHERE v > 1") == position(FILES, more=", 'password' = 'x'")
    assert position(FILES) != position(FILES, path="b")
    watched = ", 'monitor' = '1 s'"
    assert position(FILES, more=watched) == position(FILES, path="b", more=watched)


def test_a_number_of_rows_is_of_one_query() -> None:
    assert position(ROWS, more=", 'password' = 'x'") == position(ROWS, more=", 'password' = 'y'")
    assert len({position(ROWS), position(ROWS, "WHERE v > 1"), position(ROWS, path="b")}) == 3


def recursive(name: str, column: str, union: str, step: str) -> StateIdentity:
    start = f"SELECT k AS {column} FROM s WHERE v = 1"
    query = f"WITH RECURSIVE {name} ({column}) AS ({start} {union} {step.format(name=name, column=column)}) SELECT * FROM {name}"
    (found,) = (state for state in states(query) if state.sql.startswith("WITH RECURSIVE"))
    return found


STEP = "SELECT w FROM {name} JOIN s ON {column} = k"


def test_names_are_no_part_of_the_identity_of_a_recursive_query() -> None:
    assert recursive("r", "x", "UNION", STEP).id == recursive("reached", "node", "UNION", STEP).id


@pytest.mark.parametrize(
    ("union", "step"),
    [
        ("UNION ALL", STEP),
        ("UNION", STEP + " WHERE v > 2"),
        ("UNION", "SELECT v FROM {name} JOIN s ON {column} = k"),
    ],
)
def test_another_step_has_another_identity(union: str, step: str) -> None:
    assert recursive("r", "x", union, step).id != recursive("r", "x", "UNION", STEP).id


def test_a_limit_above_a_limit_is_another_one() -> None:
    ids = [s.id for s in states("SELECT * FROM (SELECT k, v FROM s LIMIT 9) LIMIT 5")]
    assert len(set(ids)) == len(ids)


def test_a_join_of_a_table_with_itself_tells_its_sides_apart() -> None:
    join = "SELECT a.k, b.v FROM s a JOIN s b ON a.k = b.v"
    (one,) = (s for s in states(join) if s.sql.startswith("JOIN"))
    (other,) = (
        s for s in states("SELECT a.k, b.v FROM s a JOIN s b ON a.v = b.k") if s.sql.startswith("JOIN")
    )
    assert one.sql == "JOIN ON k = v"
    assert one.id != other.id


@pytest.mark.parametrize(
    "query",
    [
        COUNTS,
        "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY w) FROM s",
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM s) WHERE n <= 2",
        "SELECT a.v, b.w FROM s AS a JOIN s AS b ON a.k = b.v",
    ],
)
def test_how_long_state_is_kept_is_no_part_of_its_identity(query: str) -> None:
    def ids(ttl: str) -> list[str]:
        (plan,) = compile_script(DDL + query, {"table.exec.state.ttl": ttl})
        return [n.state.id for n in plan.stream_graph.nodes if n.state is not None]

    assert ids("0 s") == ids("1 h")
