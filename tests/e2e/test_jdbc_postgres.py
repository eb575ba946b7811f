"""Tables of Postgres by connector `jdbc`, with Debian's server: read, looked up and written."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from changelog_harness import changelogs
from command_harness import ROOT, SQLSTREAM, environment, sqlstream
from commit_harness import CheckpointedJob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jdbc_harness import FILES, abort, commit, context, look_up, read, sink, source, written
from operator_harness import Row, batch
from postgres_harness import PASSWORD, USER, Postgres, running_postgres, sql_options

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.jdbc.driver import Connection
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.connector import SourceStatus
from sqlstream.testing.mortal_files import MortalFiles, Process

pytestmark = pytest.mark.timeout(300)

SCHEMA = Schema.of(("k", sql.BIGINT), ("name", sql.STRING), ("at", sql.timestamp(3)))
ROWS: list[Row] = [(1, "one", 1_000), (2, "two", 2_000), (2, "zwei", None), (4, None, 4_000)]
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        server.sql(
            'CREATE TABLE dim (k int4, name varchar(20), "at" timestamp, other bytea)',
            "INSERT INTO dim VALUES (1, 'one', '1970-01-01 00:00:01'), (2, 'two', '1970-01-01 00:00:02'), (2, 'zwei', NULL),"
            " (4, NULL, '1970-01-01 00:00:04')",
            "CREATE VIEW two AS SELECT * FROM dim WHERE k = 2",
            'CREATE SCHEMA "S"',
            'CREATE TABLE "S"."Dim" AS SELECT * FROM dim WHERE k = 4',
            "CREATE TABLE numbers AS SELECT i::int8 AS k FROM generate_series(0, 9999) AS i",
            "CREATE ROLE reader LOGIN PASSWORD 'r'",
            "GRANT SELECT ON dim TO reader",
        )
        yield server


def spec(server: Postgres, schema: Schema = SCHEMA, table: str = "dim", **others: Any) -> Any:
    read_as = {key: others.pop(key) for key in ("columns", "filters", "limit") if key in others}
    return source(server.options(table, **others), schema, **read_as)


def compared(column: int, value: Any, function: str = "=") -> Expression:
    t = SCHEMA.types[column]
    return Call(function, (InputRef(column, t), Literal(value, t)), sql.BOOLEAN)


# -- scans -----------------------------------------------------------------------------------------------------------------


def test_tables_and_views_are_read_with_the_declared_types(postgres: Postgres) -> None:
    assert read(spec(postgres)) == ROWS
    assert read(spec(postgres, table="two", columns=("name",))) == [("two",), ("zwei",)]
    assert read(spec(postgres, table="S.Dim")) == [ROWS[3]]
    assert read(spec(postgres, columns=())) == [()] * 4
    assert len(read(spec(postgres, limit=2))) == 2


def test_filters_are_left_to_the_database_and_leave_out_no_row_that_passes(postgres: Postgres) -> None:
    assert read(spec(postgres, filters=(compared(0, 2), compared(1, "o'n\\e", "<>")))) == ROWS[1:3]
    assert read(spec(postgres, filters=(compared(1, "p", ">"),))) == ROWS
    assert read(spec(postgres, filters=(compared(0, 2),), filter__handling__policy="never")) == ROWS
    postgres.sql(
        "DROP TABLE IF EXISTS texts",
        "CREATE COLLATION IF NOT EXISTS anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE texts (name text COLLATE anycase, c char(5))",
        "INSERT INTO texts VALUES ('one', 'ab')",
    )
    texts = Schema.of(("name", sql.STRING), ("c", sql.STRING))
    for column, value in ((0, "ONE"), (1, "ab")):
        differs = Call("<>", (InputRef(column, sql.STRING), Literal(value, sql.STRING)), sql.BOOLEAN)
        assert read(spec(postgres, texts, "texts", filters=(differs,))) == [("one", "ab   ")]


NUMBERS = Schema.of(("k", sql.BIGINT))
RANGES = {
    "scan__partition__column": "k",
    "scan__partition__num": "7",
    "scan__partition__lower_bound": "10",
    "scan__partition__upper_bound": "5000",
}


@pytest.mark.parametrize("auto_commit", ["true", "false"])
def test_subtasks_share_the_ranges_and_each_goes_on_where_another_stopped(
    postgres: Postgres, auto_commit: str
) -> None:
    table = spec(postgres, NUMBERS, "numbers", scan__auto_commit=auto_commit, **RANGES)
    parts = [read(table, subtask=i, parallelism=3, batch_rows=500) for i in range(3)]
    assert all(parts)
    assert sorted(k for part in parts for (k,) in part) == list(range(10, 5001))
    reader, first = connector("jdbc").source(table, context(1, 3, batch_rows=300), None), list[Row]()
    for _ in range(4):
        polled = reader.poll()
        assert not isinstance(polled, SourceStatus)
        first += [(k,) for k in polled.column(0).to_pylist()]
    splits = reader.snapshot()
    reader.close()
    assert first + read(table, splits, subtask=1, parallelism=3, batch_rows=500) == parts[1]


def test_the_ranges_of_a_reader_are_of_one_moment_without_auto_commit(postgres: Postgres) -> None:
    postgres.sql(
        "DROP TABLE IF EXISTS moving",
        "CREATE TABLE moving AS SELECT i::int8 AS k FROM generate_series(0, 9) AS i",
    )
    for auto_commit, found in (("false", 10), ("true", 5)):
        ranges = {
            **RANGES,
            "scan__partition__num": "2",
            "scan__partition__lower_bound": "0",
            "scan__partition__upper_bound": "9",
        }
        table = spec(postgres, NUMBERS, "moving", scan__auto_commit=auto_commit, **ranges)
        reader = connector("jdbc").source(table, context(batch_rows=100), None)
        polled = reader.poll()
        assert not isinstance(polled, SourceStatus)
        postgres.sql("DELETE FROM moving WHERE k >= 5")
        rows = polled.num_rows
        while not isinstance(polled := reader.poll(), SourceStatus):
            rows += polled.num_rows
        reader.close()
        assert rows == found


ALL_TYPES: list[tuple[str, sql.LogicalType, str, Any, str]] = [
    ("bool", sql.BOOLEAN, "true", True, ""),
    ("int2", sql.TINYINT, "-128", -128, "128"),
    ("int2", sql.SMALLINT, "32767", 32767, ""),
    ("int4", sql.INT, "5", 5, ""),
    ("int8", sql.BIGINT, "9223372036854775807", (1 << 63) - 1, ""),
    ("float4", sql.FLOAT, "0.1", pytest.approx(0.1, rel=1e-7), ""),
    ("float8", sql.DOUBLE, "0.1", 0.1, ""),
    ("numeric(10,2)", sql.decimal(10, 2), "12.50", Decimal("12.50"), "'NaN'"),
    ("numeric", sql.decimal(10, 2), "12.5", Decimal("12.50"), "12.505"),
    ("text", sql.STRING, "'zoë'", "zoë", ""),
    ("varchar(5)", sql.varchar(5), "'v'", "v", ""),
    ("char(3)", sql.char(3), "'c'", "c  ", ""),
    ("uuid", sql.STRING, "'6ecd8c99-4036-403d-bf84-cf8400f67836'", "6ecd8c99-4036-403d-bf84-cf8400f67836", ""),
    ("jsonb", sql.STRING, "'{\"a\": 1}'", '{"a": 1}', ""),
    ("mood", sql.STRING, "'glad'", "glad", ""),
    ("price", sql.decimal(8, 2), "1.5", Decimal("1.50"), ""),
    ("bytea", sql.BYTES, "'\\x00ff'", b"\0\xff", ""),
    ("date", sql.DATE, "'1970-01-03'", 2, "'infinity'"),
    ("date", sql.DATE, "'9999-12-31'", 2_932_896, "'10000-01-01'"),
    ("time", sql.time(3), "'00:00:01.5'", 1_500, "'24:00:00'"),
    ("time(6)", sql.time(3), "'00:00:01.5'", 1_500, "'00:00:01.0001'"),
    ("timestamp", sql.timestamp(3), "'1970-01-02 00:00:00.001'", DAY_MS + 1, "'1970-01-02 00:00:00.0001'"),
    ("timestamp", sql.timestamp(6), "'0001-01-01'", -62135596800000000, "'-infinity'"),
    ("timestamptz", sql.timestamp_ltz(6), "'1970-01-01 01:00:00+01'", 0, "'infinity'"),
    ("int4[]", sql.array(sql.BIGINT), "'{1,NULL,3}'", [1, None, 3], "'{{1},{2}}'"),
    ("numeric(4,1)[]", sql.array(sql.decimal(4, 1)), "'{1.5}'", [Decimal("1.5")], ""),
    ("text[]", sql.array(sql.STRING), "'{a,\"b c\"}'", ["a", "b c"], ""),
]  # fmt: skip


def test_every_value_is_that_of_its_type_or_an_error_that_names_it(postgres: Postgres) -> None:
    postgres.sql(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN price AS numeric(8, 2) CHECK (VALUE > 0)",
        f"CREATE TABLE typed ({', '.join(f'c{i} {t[0]}' for i, t in enumerate(ALL_TYPES))})",
        f"INSERT INTO typed VALUES ({', '.join('NULL' for t in ALL_TYPES)}), ({', '.join(t[2] for t in ALL_TYPES)})",
        f"CREATE TABLE misfits ({', '.join(f'c{i} {t[0]}' for i, t in enumerate(ALL_TYPES))})",
        f"INSERT INTO misfits VALUES ({', '.join(t[4] or 'NULL' for t in ALL_TYPES)})",
    )
    schema = Schema.of(*((f"c{i}", t[1]) for i, t in enumerate(ALL_TYPES)))
    found = read(spec(postgres, schema, "typed"))
    assert found == [(None,) * len(ALL_TYPES), tuple(t[3] for t in ALL_TYPES)]
    for i, t in enumerate(ALL_TYPES):
        if not t[4]:
            continue
        with pytest.raises(
            UserError, match=f'a value of column "c{i}" of table "dim" does not fit'
        ) as raised:
            read(spec(postgres, schema, "misfits", columns=(f"c{i}",)))
        assert t[4].strip("'").lower() in raised.value.detail.lower() or "of a year" in raised.value.detail, t


@pytest.mark.parametrize(
    ("schema", "table", "words"),
    [
        (SCHEMA, "dimm", 'there is no table "dimm"'),
        (SCHEMA, "nowhere.dim", 'there is no table "nowhere.dim"'),
        (Schema.of(("names", sql.STRING)), "dim", 'has no column "names"'),
        (Schema.of(("k", sql.SMALLINT)), "dim", "has type integer, which does not fit SMALLINT"),
        (Schema.of(("at", sql.timestamp_ltz(3))), "dim", "has type timestamp without time zone, which does not fit"),
        (Schema.of(("k", sql.STRING)), "dim", "has type integer, which does not fit STRING"),
    ],
)  # fmt: skip
def test_a_table_or_column_that_does_not_fit_is_named(
    postgres: Postgres, schema: Schema, table: str, words: str
) -> None:
    with pytest.raises(UserError) as raised:
        read(spec(postgres, schema, table))
    assert words in raised.value.message
    assert raised.value.hint


def test_a_refused_login_and_a_lacking_privilege_are_told_at_once_and_without_the_password(
    postgres: Postgres,
) -> None:
    with pytest.raises(ExternalError, match="refuses the login") as raised:
        read(spec(postgres, password="another secret"))
    assert raised.value.retry is Retry.NEVER
    assert "another secret" not in f"{raised.value.message}{raised.value.detail}"
    reader = {"username": "reader", "password": "r"}
    assert read(spec(postgres, **reader)) == ROWS
    with pytest.raises(ExternalError, match="does not permit this") as raised:
        read(spec(postgres, NUMBERS, "numbers", **reader))
    assert raised.value.detail == "permission denied for table numbers"
    with pytest.raises(ExternalError, match="it lacks CREATE in the schema, INSERT"):
        written(sink(postgres.options("numbers", **reader), NUMBERS), [])


def test_a_client_takes_no_password_from_its_surroundings(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGUSER", USER)
    options = {
        key: value for key, value in postgres.options("dim").items() if key not in ("username", "password")
    }
    with pytest.raises(ExternalError, match="refuses the login"):
        read(source(options, SCHEMA))


# -- lookups ---------------------------------------------------------------------------------------------------------------


def test_all_rows_of_the_keys_are_found_and_the_server_is_asked_for_no_other(postgres: Postgres) -> None:
    assert look_up(spec(postgres), [(2,), (1,), (1 << 40,)]) == sorted(ROWS[:3], key=repr)
    assert '= ANY(\'{"2","1"}\'::int4[])' in postgres.log
    assert look_up(spec(postgres), [(2, "zwei"), (1, "zwei")], by=("k", "name")) == [ROWS[2]]
    assert look_up(spec(postgres, filters=(compared(1, "two"),)), [(2,), (1,)]) == [ROWS[1]]
    assert look_up(spec(postgres), [("a\"b\\c'd",), ("nul\0",), ("one",)], by=("name",)) == [ROWS[0]]
    looking = connector("jdbc").lookup_source(spec(postgres), ("k",), context())  # type: ignore[attr-defined]
    assert looking.load(4).num_rows == 4
    with pytest.raises(UserError, match="more than the 3 rows"):
        looking.load(3)
    looking.close()


def test_keys_of_every_type_are_found(postgres: Postgres) -> None:
    postgres.sql(
        "CREATE TABLE keyed (b bool, d date, x bytea, t timestamp, z timestamptz, n numeric(10,2), u uuid, c char(3), m time)",
        "INSERT INTO keyed VALUES (true, '1970-01-03', '\\x00ff', '1970-01-01 00:00:01.5', '1970-01-01 00:00:01.5+00', 1.5,"
        " '6ecd8c99-4036-403d-bf84-cf8400f67836', 'c', '00:00:01.5')",
    )
    schema = Schema.of(
        ("b", sql.BOOLEAN), ("d", sql.DATE), ("x", sql.BYTES), ("t", sql.timestamp(3)), ("z", sql.timestamp_ltz(3)),
        ("n", sql.decimal(12, 4)), ("u", sql.STRING), ("c", sql.STRING), ("m", sql.time(3)),
    )  # fmt: skip
    row: Row = (
        True,
        2,
        b"\0\xff",
        1500,
        1500,
        Decimal("1.5"),
        "6ecd8c99-4036-403d-bf84-cf8400f67836",
        "c  ",
        1500,
    )
    for place, name in enumerate(schema.names):
        assert look_up(spec(postgres, schema, "keyed"), [(row[place],)], by=(name,)) == [row], name
    assert look_up(spec(postgres, schema, "keyed"), [("no uuid",)], by=("u",)) == []


def test_a_lookup_connects_again_after_its_connection_was_lost(postgres: Postgres) -> None:
    looking = connector("jdbc").lookup_source(spec(postgres), ("k",), context())  # type: ignore[attr-defined]
    keys = batch(Schema.of(("k", sql.BIGINT)), [(1,)])
    assert looking.lookup(keys).num_rows == 1
    postgres.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sqlstream'"
    )
    with pytest.raises(ExternalError, match="could not reach the database") as raised:
        looking.lookup(keys)
    assert raised.value.retry is Retry.BACKOFF
    assert looking.lookup(keys).num_rows == 1
    looking.close()


def test_the_size_of_a_table_is_asked_for_and_a_view_counts_as_large(postgres: Postgres) -> None:
    sizes = [
        connector("jdbc").input_bytes(spec(postgres, NUMBERS, t), FILES) for t in ("numbers", "two", "none")
    ]  # type: ignore[attr-defined]
    assert 300_000 < sizes[0] < 10_000_000
    assert sizes[1:] == [1 << 62, 0]


# -- the sink --------------------------------------------------------------------------------------------------------------

OUT = Schema.of(("k", sql.BIGINT), ("v", sql.STRING))


@pytest.fixture
def out(postgres: Postgres) -> Postgres:
    """The server with an empty table `out` in a schema of its own."""
    postgres.sql(
        "DROP SCHEMA IF EXISTS w CASCADE",
        "CREATE SCHEMA w",
        "CREATE TABLE w.out (v text, k bigint PRIMARY KEY)",
    )
    return postgres


def tables(server: Postgres) -> list[str]:
    names = server.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'w'::regnamespace AND relkind = 'r' ORDER BY 1"
    )
    return [name.rpartition("_")[0] if "staging" in name else name for name in names.split("\n")]


def test_rows_are_there_after_the_commit_and_not_before(out: Postgres) -> None:
    target = sink(out.options("w.out"), OUT)
    second = written(target, [[(3, "c")]], subtask=1)
    first = written(target, [[(1, "a")], [(2, None)]])
    assert out.sql("SELECT count(*) FROM w.out") == "0"
    commit(target, [*second, *first])
    rows = "1|a\n2|\n3|c"
    assert out.sql("SELECT k, v FROM w.out ORDER BY k") == rows
    assert tables(out) == ["out", "sqlstream_commits"]
    commit(target, [*second, *first])
    assert out.sql("SELECT k, v FROM w.out ORDER BY k") == rows


@given(
    st.lists(
        changelogs(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None])), max_size=12), max_size=3
    )
)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_with_a_primary_key_holds_what_the_changes_leave(
    out: Postgres, logs: list[list[Row]]
) -> None:
    out.sql("TRUNCATE w.out")
    target, expected = sink(out.options("w.out"), OUT, (0,)), dict[int, Any]()
    for log in logs:
        for kind, k, v in log:
            expected.pop(k, None)
            if kind in ("+I", "+U"):
                expected[k] = v
        commit(target, written(target, [log[:5], log[5:]], ChangelogMode.RETRACT))
    assert out.sql("SELECT k, coalesce(v, '') FROM w.out ORDER BY k") == "\n".join(
        f"{k}|{expected[k] or ''}" for k in sorted(expected)
    )


def test_values_of_all_types_come_back_as_they_were_written(out: Postgres) -> None:
    kept = [t for t in ALL_TYPES if t[0] not in ("numeric(4,1)[]", "int4[]", "jsonb", "mood", "price")]
    out.sql(
        f"CREATE TABLE w.types ({', '.join(f'c{i} {t[0]}' for i, t in enumerate(kept))}, a int8[], j jsonb)"
    )
    schema = Schema.of(
        *((f"c{i}", t[1]) for i, t in enumerate(kept)), ("a", sql.array(sql.BIGINT)), ("j", sql.STRING)
    )
    values = [0.1 if t[0] == "float4" else t[3] for t in kept]
    rows: list[Row] = [(*values, [1, None], '{"a": 1}'), (None,) * (len(kept) + 2)]
    target = sink(out.options("w.types"), schema)
    commit(target, written(target, [rows]))
    expected = [tuple(pytest.approx(v, rel=1e-7) if v == 0.1 else v for v in row) for row in rows]
    assert read(source(out.options("w.types"), schema)) == expected


def test_an_abort_leaves_nothing_of_its_job(out: Postgres) -> None:
    target = sink(out.options("w.out"), OUT)
    committables = written(target, [[(1, "a")]])
    open_writer = connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context())
    written(target, [[(2, "b")]], job_id="other")
    abort(target, committables)
    open_writer.abort()
    assert tables(out) == ["out", "sqlstream_staging_other"]


class MortalServer:
    """What the present process asks of the server; it may die before or after each statement, and its connections with it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._process = Process(None)
        self._open: list[Connection] = []
        for name in ("run", "rows", "ingest"):
            patch.setattr(Connection, name, self._counted(getattr(Connection, name)))

    def _counted(self, statement: Callable[..., Any]) -> Callable[..., Any]:
        def call(connection: Connection, *arguments: Any) -> Any:
            # A thread that connects ends with its process, and leaves nothing.
            if threading.current_thread() is not threading.main_thread():
                return statement(connection, *arguments)
            self._open.append(connection)
            self._process.call()
            result = statement(connection, *arguments)
            self._process.call()
            return result

        return call

    def files(self, process: Process) -> MortalFiles:
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._process = process
        return MortalFiles(process)


@pytest.mark.parametrize("death", [0, 23, 46, 69, 92])
def test_a_table_has_every_row_once_wherever_the_process_dies(
    out: Postgres, death: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.sql(f"CREATE TABLE w.t (v varchar(20){' PRIMARY KEY' * (death % 2)}, p int4)")
    schema = Schema.of(("v", sql.STRING), ("p", sql.INT))
    target = sink(out.options("w.t", sink__max_retries="0"), schema, (0,) * (death % 2))
    plan = [(5, True, True), (4, False, True), (3, True, False), (6, True, True), (2, True, True)]

    def visible() -> list[int]:
        return [int(v) for v in out.sql("SELECT v FROM w.t").split()]

    job = CheckpointedJob(target, plan, [death, death // 2], visible, MortalServer(monkeypatch).files)
    rows = job.run()
    assert job.died > 0
    assert sorted(visible()) == list(range(rows))
    assert tables(out) == ["out", "sqlstream_commits", "t"]


def test_what_a_job_that_died_has_staged_is_removed_and_nothing_else(out: Postgres) -> None:
    target = sink(out.options("w.out"), OUT)
    dead = connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context(job_id="d" * 32))
    dead._connecting.close()  # type: ignore[attr-defined]
    living = connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context(job_id="a" * 32))
    written(target, [[(1, "a")]], job_id="c" * 32, now_ms=lambda: 1000 * int(time.time()))
    written(target, [[(1, "a")]], job_id="b" * 32, now_ms=lambda: 1000 * int(time.time()) - 31 * DAY_MS)
    staged = [f"sqlstream_staging_{c * 32}" for c in "abc"]
    assert tables(out) == ["out", *staged]
    written(target, [], job_id="e" * 32)
    assert tables(out) == ["out", staged[0], staged[2], f"sqlstream_staging_{'e' * 32}"]
    living.abort()
    assert staged[0] not in tables(out)


def test_what_dead_writers_of_a_job_have_staged_goes_before_its_end(out: Postgres) -> None:
    target = sink(out.options("w.out"), OUT)

    def writer(name: str) -> Any:
        return connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context(writer_name=name))

    dead, living, locked = writer("a1/e0/1"), writer("a1/e1/1"), writer("a1/e2/1")
    for one in (dead, living):
        one.write(batch(OUT, [(1, "a")]))
        one.prepare_commit(1)
        one.write(batch(OUT, [(2, "b")]))
        one._flush()
    locked._connecting.connection.run("BEGIN")
    locked._connecting.connection.run(f"LOCK TABLE w.{locked._staging.name}")
    dead._connecting.close()
    assert len(tables(out)) == 6
    connector("jdbc").remove_staged(target, "job", ["a1/e0/1", "a1/e2/1", "a9/e9/9"], FILES)  # type: ignore[attr-defined]
    names = out.sql("SELECT relname FROM pg_class WHERE relnamespace = 'w'::regnamespace AND relkind = 'r'")
    left = {living._staging.name, locked._staging.name}
    assert left < set(names.split("\n"))
    assert len(tables(out)) == 4
    connector("jdbc").remove_staged(target, "other", ["a1/e1/1"], FILES)  # type: ignore[attr-defined]
    living.abort()
    locked._connecting.close()
    abort(target, [])
    assert tables(out) == ["out"]


def test_tables_of_others_stay_whatever_their_names(out: Postgres) -> None:
    target, shape = sink(out.options("w.out"), OUT), f"{'d' * 32}_{'0' * 12}"
    connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context(job_id="d" * 32))._connecting.close()  # type: ignore[attr-defined]
    comment = out.sql(
        "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname LIKE 'sqlstream\\_staging\\_d%'"
    )
    names = ("sqlstream_staging_backup", "sqlstream_staging_my_copy", f"sqlstream_staging_{shape[:-1]}")
    uncommented = f"sqlstream_staging_{shape}"
    out.sql(
        *(f"CREATE TABLE w.{name} ()" for name in (*names, uncommented)),
        *(f"COMMENT ON TABLE w.{name} IS '{comment}'" for name in names),
        "CREATE TABLE w.sqlstream_staging_of_mine ()",
        "COMMENT ON TABLE w.sqlstream_staging_of_mine IS 'since 1'",
    )
    written(target, [], job_id="e" * 32)
    left = out.sql("SELECT relname FROM pg_class WHERE relnamespace = 'w'::regnamespace AND relkind = 'r'")
    expected = {"out", *names, uncommented, "sqlstream_staging_of_mine"}
    assert {name for name in left.split("\n") if "e" * 32 not in name} == expected


@pytest.mark.parametrize(
    ("definition", "declared", "key", "words"),
    [
        ("k int4", sql.BIGINT, (), "has type integer, which does not fit BIGINT"),
        ("k timestamp(3)", sql.timestamp(6), (), r"does not fit TIMESTAMP\(6\)"),
        ("k numeric(5,2)", sql.decimal(10, 2), (), r"does not fit DECIMAL\(10, 2\)"),
        ("x int4", sql.INT, (), 'has no column "k"'),
        ("k int4", sql.INT, (0,), 'no unique constraint over "k"'),
    ],
)  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused_before_the_job_runs(
    out: Postgres, definition: str, declared: sql.LogicalType, key: tuple[int, ...], words: str
) -> None:
    out.sql(f"CREATE TABLE w.small ({definition})")
    with pytest.raises(UserError, match=words):
        written(sink(out.options("w.small"), Schema.of(("k", declared)), key), [])
    assert tables(out) == ["out", "small"]


def test_rows_that_the_table_refuses_change_nothing(out: Postgres) -> None:
    out.sql("CREATE TABLE w.narrow (k bigint, v varchar(3))", "INSERT INTO w.out VALUES ('old', 1)")
    writer = connector("jdbc").sink(sink(out.options("w.narrow"), OUT), ChangelogMode.INSERT_ONLY, context())
    with pytest.raises(SqlStreamError, match="refuses a value") as raised:
        writer.write(batch(OUT, [(1, "long text")] * 100))
    assert "value too long for type character varying(3)" in raised.value.detail
    writer.abort()
    target = sink(out.options("w.out"), OUT)
    with pytest.raises(SqlStreamError, match="refuses a value") as raised:
        commit(target, written(target, [[(2, "b"), (1, "new")]]))
    assert 'duplicate key value violates unique constraint "out_pkey"' in raised.value.detail
    assert out.sql("SELECT k, v FROM w.out") == "1|old"


def test_rows_that_have_vanished_fail_the_commit_and_change_nothing(out: Postgres) -> None:
    target = sink(out.options("w.out"), OUT)
    lost, kept = written(target, [[(2, "b")]]), written(target, [[(3, "c")]], subtask=1)
    out.sql(f"TRUNCATE w.{lost[0].content['table']}")
    with pytest.raises(ExternalError, match="have vanished"):
        commit(target, [*lost, *kept])
    assert out.sql("SELECT count(*) FROM w.out") == "0"


def test_a_lost_connection_is_made_again_and_no_row_is_written_twice(out: Postgres) -> None:
    target = sink(out.options("w.out", sink__buffer_flush__max_rows="2"), OUT)
    writer = connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context())
    writer.write(batch(OUT, [(1, "a"), (2, "b")]))
    out.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sqlstream'")
    writer.write(batch(OUT, [(3, "c")]))
    writer.write(batch(OUT, [(4, "d")]))
    commit(target, writer.prepare_commit(LAST_CHECKPOINT_ID))
    assert out.sql("SELECT string_agg(k::text, ',' ORDER BY k) FROM w.out") == "1,2,3,4"


def test_a_server_of_sqlstream_connects_where_it_is_told_to(postgres: Postgres) -> None:
    with pytest.raises(UserError, match="connects to no database servers"):
        read(spec(postgres), files=RootedFiles(FilePlaces()))
    assert read(spec(postgres), files=RootedFiles(FilePlaces(has_database_servers=True))) == ROWS


# -- by the command --------------------------------------------------------------------------------------------------------

SCRIPT = """
CREATE TABLE orders (id BIGINT, k INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '4',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '4',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '4');
CREATE TABLE dim (k INT, name STRING) WITH ({dim});
CREATE TABLE target (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ({target});
"""
LOOK_UP = "SELECT o.id, d.name FROM orders AS o LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;"


def script(server: Postgres, **others: str) -> str:
    dim, target = server.options("dim", **others), server.options("w.out")
    return SCRIPT.format(dim=sql_options(dim), target=sql_options(target))


def run(server: Postgres, queries: str, **others: str) -> Any:
    return sqlstream("run", "--format", "csv", "-c", script(server, **others) + queries)


def test_a_job_reads_looks_up_and_writes(out: Postgres) -> None:
    done = run(out, f"{LOOK_UP} INSERT INTO target SELECT k, MAX(name) FROM dim GROUP BY k;")
    assert done.returncode == 0, done.stderr
    rows, _, _ = done.stdout.partition("\n\n")
    assert rows.split("\n")[:1] == ["id,name"]
    assert sorted(rows.split("\n")[1:6]) == ["1,one", "2,two", "2,zwei", "3,", "4,"]
    assert out.sql("SELECT k, v FROM w.out ORDER BY k") == "1|one\n2|zwei\n4|"
    assert tables(out) == ["out", "sqlstream_commits"]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM dim;", LOOK_UP, "INSERT INTO target SELECT k, name FROM dim;"]
)
def test_a_wrong_password_fails_a_job_at_once_although_it_would_restart(out: Postgres, query: str) -> None:
    checkpoints = "SET 'execution.checkpointing.interval' = '1 s'; "
    done = run(out, checkpoints + query, password="another secret")
    assert done.returncode == 1
    assert "hint: check the options 'username' and 'password'" in done.stderr
    assert "restart" not in done.stderr
    assert "another secret" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_batch_statement_reads_and_writes_with_either_engine(out: Postgres, engine: str) -> None:
    settings = ("--set", "execution.runtime-mode=batch", "--set", f"execution.batch.engine={engine}")
    query = script(out) + "INSERT INTO target SELECT k, MAX(name) FROM dim WHERE k < 4 GROUP BY k;"
    done = subprocess.run(
        [*SQLSTREAM, "run", *settings, "-c", query],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.sql("SELECT k, v FROM w.out ORDER BY k") == "1|one\n2|zwei"


@pytest.mark.slow
def test_subtasks_in_processes_of_their_own_read_and_write_side_by_side(out: Postgres) -> None:
    numbers = sql_options(out.options("numbers", **RANGES))
    target = sql_options(out.options("w.out", sink__parallelism="2"))
    text = f"""
        SET 'parallelism.default' = '2';
        CREATE TABLE numbers (k BIGINT) WITH ({numbers});
        CREATE TABLE target (k BIGINT, v STRING) WITH ({target});
        INSERT INTO target SELECT k, CAST(k AS STRING) FROM numbers;
    """
    done = sqlstream("run", "--task-managers", "2", "-c", text)
    assert done.returncode == 0, done.stderr
    assert out.sql("SELECT count(*), count(DISTINCT k), min(k), max(k) FROM w.out") == "4991|4991|10|5000"
    assert len(out.log.split('CREATE TABLE IF NOT EXISTS "w"."sqlstream_staging_')) >= 3
    assert tables(out) == ["out", "sqlstream_commits"]


@pytest.mark.slow
def test_a_job_that_fails_leaves_nothing(out: Postgres) -> None:
    done = run(out, "INSERT INTO target SELECT k, CAST(10 / (k - 4) AS STRING) FROM dim;")
    assert done.returncode == 1
    assert out.sql("SELECT count(*) FROM w.out") == "0"
    assert [t for t in tables(out) if "staging" in t] == []


@pytest.mark.slow
def test_a_server_that_is_down_is_tried_again_until_it_is_back_or_the_job_fails() -> None:
    with running_postgres() as server:
        server.sql("CREATE TABLE dim AS SELECT 1 AS k, 'one' AS name")
        server.stop()
        for queries in (LOOK_UP, "SELECT * FROM dim;", "INSERT INTO target VALUES (1, 'a');"):
            begun_s = time.monotonic()
            done = run(server, queries)
            assert done.returncode == 1
            assert time.monotonic() - begun_s > 0.2 + 0.4 + 0.8
            assert "could not reach the database" in done.stderr
            assert "Connection refused" in done.stderr
            assert "check that it is up" in done.stderr
            assert "secret" not in done.stderr
        back = threading.Timer(4, server.start)
        back.start()
        done = run(server, LOOK_UP, lookup__max_retries="10")
        back.join(60)
        assert done.returncode == 0, done.stderr
        assert "1,one" in done.stdout


def test_a_scan_that_is_gone_on_with_returns_its_rows_in_the_order_of_the_one_before(
    postgres: Postgres,
) -> None:
    table = spec(postgres, NUMBERS, "numbers")
    reader, first = connector("jdbc").source(table, context(batch_rows=300), None), list[Row]()
    for _ in range(4):
        polled = reader.poll()
        assert not isinstance(polled, SourceStatus)
        first += [(k,) for k in polled.column(0).to_pylist()]
    settings = reader._connecting.connection.rows(  # type: ignore[attr-defined]
        "SELECT current_setting('synchronize_seqscans') || current_setting('max_parallel_workers_per_gather') AS s"
    )
    assert settings.column(0).to_pylist() == ["off0"]
    splits = reader.snapshot()
    reader.close()
    assert first + read(table, splits) == read(table)
