"""Tables of SQLite by connector `jdbc`: read, looked up and written."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changelog_harness import changelogs
from hypothesis import given, settings
from hypothesis import strategies as st
from jdbc_harness import FILES, abort, commit, context, look_up, read, sink, source, written
from operator_harness import Row

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.jdbc import sqlite
from sqlstream.runtime.connectors.sql_tables import TRIES_MAX
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema
from sqlstream.spi.connector import SourceStatus, StagesRows

SCHEMA = Schema.of(("k", sql.BIGINT), ("name", sql.STRING), ("at", sql.timestamp(3)))
ROWS: list[Row] = [(1, "one", 1_000), (2, "two", 2_000), (2, "zwei", None), (4, None, 4_000)]
DAY_MS = 86_400_000
HOLDER = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN EXCLUSIVE');"
    " print('locked', flush=True); sys.stdin.readline(); c.execute('ROLLBACK')"
)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        yield connection


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process has the file locked: within one, two builds of SQLite do not see each other's locks."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.communicate("\n", timeout=60)


def run(path: Path, *statements: str) -> None:
    with opened(path) as connection:
        for statement in statements:
            connection.execute(statement)


def stored(path: Path, query: str) -> list[Row]:
    with opened(path) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "a shop#1%41.sqlite"
    run(path, 'CREATE TABLE dim (k BIGINT, name TEXT COLLATE NOCASE, "at" TIMESTAMP, other BLOB)')
    with opened(path) as connection:
        connection.executemany(
            "INSERT INTO dim VALUES (?, ?, strftime('%Y-%m-%d %H:%M:%f', ? / 1000.0, 'unixepoch'), NULL)",
            ROWS,
        )
    run(path, "CREATE VIEW two AS SELECT * FROM dim WHERE k = 2")
    return path


def options(path: Path, table: str = "dim", **others: str) -> dict[str, str]:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in others.items()}
    return {"url": f"jdbc:sqlite:{path}", "table-name": table, **named}


def spec(path: Path, schema: Schema = SCHEMA, table: str = "dim", **others: Any) -> Any:
    read_as = {key: others.pop(key) for key in ("columns", "filters", "limit") if key in others}
    return source(options(path, table, **others), schema, **read_as)


# -- scans -----------------------------------------------------------------------------------------------------------------


def test_a_table_or_view_is_read_with_the_declared_types(shop: Path) -> None:
    assert read(spec(shop)) == ROWS
    assert read(spec(shop, table="two")) == ROWS[1:3]
    assert read(spec(shop, table="main.DIM", columns=("name",))) == [(row[1],) for row in ROWS]
    assert read(spec(shop, columns=())) == [()] * 4


def equal(column: int, value: Any, function: str = "=") -> Expression:
    t = SCHEMA.types[column]
    return Call(function, (InputRef(column, t), Literal(value, t)), sql.BOOLEAN)


def test_filters_are_left_to_the_database_and_leave_out_no_row_that_passes(shop: Path) -> None:
    assert read(spec(shop, filters=(equal(0, 2),))) == ROWS[1:3]
    assert read(spec(shop, filters=(equal(1, "one"),))) == ROWS[:1]
    # The column's own collation takes "ONE" for "one".
    assert read(spec(shop, filters=(equal(1, "ONE", "<>"),))) == ROWS[:3]
    # Texts are ordered as the plan orders them, by the plan.
    assert read(spec(shop, filters=(equal(1, "p", ">"),))) == ROWS
    assert read(spec(shop, filters=(equal(0, 2),), filter__handling__policy="never")) == ROWS


def test_a_limit_ends_the_query(shop: Path) -> None:
    assert read(spec(shop, limit=3)) == ROWS[:3]
    assert read(spec(shop, limit=0)) == []


def numbers(path: Path, count: int) -> Path:
    run(
        path,
        "CREATE TABLE dim (k INTEGER)",
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) INSERT INTO dim SELECT i FROM n",
    )
    return path


NUMBERS = Schema.of(("k", sql.BIGINT))
RANGES = {
    "scan__partition__column": "k",
    "scan__partition__num": "5",
    "scan__partition__lower_bound": "3",
    "scan__partition__upper_bound": "40",
}


@pytest.mark.parametrize("auto_commit", ["true", "false"])
def test_subtasks_share_the_ranges_and_rows_outside_of_the_bounds_are_not_read(
    tmp_path: Path, auto_commit: str
) -> None:
    table = spec(numbers(tmp_path / "n.sqlite", 50), NUMBERS, scan__auto_commit=auto_commit, **RANGES)
    parts = [read(table, subtask=i, parallelism=3) for i in range(3)]
    assert all(parts)
    assert sorted(k for part in parts for (k,) in part) == list(range(3, 41))
    whole = spec(tmp_path / "n.sqlite", NUMBERS)
    assert [len(read(whole, subtask=i, parallelism=2)) for i in (0, 1)] == [50, 0]


def test_a_reader_goes_on_where_another_stopped(tmp_path: Path) -> None:
    table = spec(numbers(tmp_path / "n.sqlite", 50), NUMBERS, **RANGES)
    whole = read(table)
    for polls in (0, 1, 2, 3, 7):
        reader, first = connector("jdbc").source(table, context(), None), list[Row]()
        for _ in range(polls):
            polled = reader.poll()
            assert not isinstance(polled, SourceStatus)
            first += [(k,) for k in polled.column(0).to_pylist()]
        splits = reader.snapshot()
        reader.close()
        assert first + read(table, splits) == whole


def test_the_fetch_size_bounds_the_rows_of_a_batch(tmp_path: Path) -> None:
    table = spec(numbers(tmp_path / "n.sqlite", 50), NUMBERS, scan__fetch_size="20")
    reader = connector("jdbc").source(table, context(batch_rows=1000), None)
    sizes = []
    while not isinstance(polled := reader.poll(), SourceStatus):
        sizes.append(polled.num_rows)
    assert sum(sizes) == 50
    assert max(sizes) == 20


ALL_TYPES: list[tuple[sql.LogicalType, Any, Any, Any]] = [
    (sql.BOOLEAN, "true", True, "'x'"),
    (sql.TINYINT, "-128", -128, "128"),
    (sql.SMALLINT, "32767", 32767, "32768"),
    (sql.INT, "-2147483648", -(1 << 31), "2147483648"),
    (sql.BIGINT, "9223372036854775807", (1 << 63) - 1, "'1x'"),
    (sql.FLOAT, "0.5", 0.5, "0.1"),
    (sql.DOUBLE, "0.1", 0.1, "9007199254740993"),
    (sql.DOUBLE, "3", 3.0, "x'00'"),
    (sql.decimal(10, 2), "'12.50'", Decimal("12.50"), "'12.505'"),
    (sql.decimal(10, 2), "12.5", Decimal("12.50"), "0.125"),
    (sql.decimal(4, 2), "12", Decimal("12.00"), "123"),
    (sql.decimal(38, 0), "'12345678901234567890123456789012345678'", Decimal("12345678901234567890123456789012345678"), "'nan'"),
    (sql.STRING, "'zoë'", "zoë", "5"),
    (sql.BYTES, "x'00ff'", b"\0\xff", "'00ff'"),
    (sql.DATE, "'1970-01-03'", 2, "'1970-02-30'"),
    (sql.time(3), "'00:00:01.5'", 1_500, "'24:00:00'"),
    (sql.timestamp(3), "'1970-01-02 00:00:00.001'", DAY_MS + 1, "'1970-01-02 00:00:00.0001'"),
    (sql.timestamp(9), "'1970-01-01T00:00:00.000000001'", 1, "'0000-01-01'"),
    (sql.timestamp_ltz(3), "'1970-01-01 01:00:00+01:00'", 0, "'1970-01-01 01:00:00'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "literal", "value", "misfit"), ALL_TYPES, ids=[f"{t[0]}-{t[1]}" for t in ALL_TYPES]
)
def test_every_value_is_that_of_its_type_or_an_error_that_names_it(
    tmp_path: Path, declared: sql.LogicalType, literal: str, value: Any, misfit: str
) -> None:
    """Also where a batch begins with many NULLs, by which a driver that guesses would be misled."""
    path, schema = tmp_path / "t.sqlite", Schema.of(("v", declared))
    run(
        path,
        "CREATE TABLE dim (v)",
        *["INSERT INTO dim VALUES (NULL)"] * 5,
        f"INSERT INTO dim VALUES ({literal})",
    )
    assert read(spec(path, schema)) == [(None,)] * 5 + [(value,)]
    run(path, f"INSERT INTO dim VALUES ({misfit})")
    with pytest.raises(UserError, match='a value of column "v" of table "dim" does not fit') as raised:
        read(spec(path, schema), batch_rows=100)
    assert raised.value.code == "SS5065"
    shown = stored(path, f"SELECT {misfit}")[0][0]
    is_named = str(shown) in raised.value.detail or "of a year" in raised.value.detail
    assert is_named or misfit.upper() in raised.value.detail.upper()


# -- lookups ---------------------------------------------------------------------------------------------------------------


def test_all_rows_of_the_keys_are_found_by_one_query(shop: Path) -> None:
    assert look_up(spec(shop), [(2,), (1,), (9,)]) == sorted([ROWS[0], ROWS[1], ROWS[2]], key=repr)
    assert look_up(spec(shop), [(2, "zwei"), (1, "zwei")], by=("k", "name")) == [ROWS[2]]
    filtered = spec(shop, filters=(equal(1, "two"),))
    assert look_up(filtered, [(2,), (1,)]) == [ROWS[1]]


def test_keys_of_every_type_that_has_one_text_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    run(path, "CREATE TABLE dim (b, d, x, i)", "INSERT INTO dim VALUES (1, '1970-01-03', x'00ff', -5)")
    schema = Schema.of(("b", sql.BOOLEAN), ("d", sql.DATE), ("x", sql.BYTES), ("i", sql.SMALLINT))
    row: Row = (True, 2, b"\0\xff", -5)
    for place, name in enumerate(schema.names):
        assert look_up(spec(path, schema), [(row[place],)], by=(name,)) == [row]


def test_a_key_whose_type_has_no_equality_is_refused_unless_the_table_is_held_whole(shop: Path) -> None:
    with pytest.raises(
        UserError, match=r'column "at" .* SQLite has no equality for TIMESTAMP\(3\)'
    ) as raised:
        look_up(spec(shop), [(1_000,)], by=("at",))
    assert "'lookup.cache' = 'FULL'" in raised.value.hint
    looking = connector("jdbc").lookup_source(spec(shop), ("at",), context())  # type: ignore[attr-defined]
    assert looking.load(4).num_rows == 4


def test_a_table_that_is_too_large_for_a_full_cache_is_refused(shop: Path) -> None:
    with pytest.raises(UserError, match="more than the 3 rows"):
        connector("jdbc").lookup_source(spec(shop), ("k",), context()).load(3)  # type: ignore[attr-defined]


# -- what goes wrong -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "schema", "words", "hint"),
    [
        ("dimm", SCHEMA, 'there is no table "dimm"', 'did you mean "dim"?'),
        ("other.dim", SCHEMA, 'there is no table "other.dim"', 'did you mean "dim"?'),
        ("dim", Schema.of(("names", sql.STRING)), 'has no column "names"', 'did you mean "name"?'),
    ],
)
def test_a_table_or_column_that_is_not_there_is_named(
    shop: Path, table: str, schema: Schema, words: str, hint: str
) -> None:
    with pytest.raises(UserError) as raised:
        read(spec(shop, schema, table))
    assert words in raised.value.message
    assert raised.value.hint == hint


def test_a_file_that_is_not_there_is_not_made_and_another_file_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="there is no file"):
        read(spec(tmp_path / "absent.sqlite"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.sqlite").write_text("no database, but a text of some length\n" * 100)
    with pytest.raises(ExternalError, match="failed") as raised:
        read(spec(tmp_path / "text.sqlite"))
    assert "not a database" in raised.value.detail


def test_a_server_reads_files_of_its_own_directories_alone(tmp_path: Path, shop: Path) -> None:
    (tmp_path / "inside").mkdir()
    link = tmp_path / "inside" / "link.sqlite"
    link.symlink_to(shop)
    rooted = RootedFiles(FilePlaces(roots=(str(tmp_path / "inside"),)))
    for path in (shop, link):
        with pytest.raises(UserError, match="outside of the directories"):
            read(spec(path), files=rooted)
    assert read(spec(link), files=RootedFiles(FilePlaces(roots=(str(tmp_path),)))) == ROWS


def test_a_database_that_is_locked_is_read_when_it_is_free(shop: Path) -> None:
    now = [0]
    reader = connector("jdbc").source(spec(shop), context(batch_rows=10, now_ms=lambda: now[0]), None)
    with locked(shop):
        for _ in range(TRIES_MAX):
            assert reader.poll() is SourceStatus.NOTHING_YET
        now[0] = reader.next_poll_ms() or 0
        assert now[0] > 0
        with pytest.raises(ExternalError, match="is locked by another process") as raised:
            look_up(spec(shop), [(1,)])
        assert raised.value.retry is Retry.BACKOFF
    assert not isinstance(polled := reader.poll(), SourceStatus)
    assert polled.num_rows == 4
    reader.close()


# -- the sink --------------------------------------------------------------------------------------------------------------

OUT = Schema.of(("k", sql.BIGINT), ("name", sql.STRING))
KEYED = Schema.of(("k", sql.BIGINT), ("v", sql.STRING))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    path = tmp_path / "out.sqlite"
    run(path, "CREATE TABLE out (k BIGINT, name TEXT)")
    return path


def hidden(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir() if p.name.startswith("."))


def test_rows_are_there_after_the_commit_and_not_before(out: Path) -> None:
    target = sink(options(out, "out"), OUT)
    second = written(target, [[(3, "c")]], subtask=1)
    first = written(target, [[(1, "a")], [(2, None)]])
    assert stored(out, "SELECT * FROM out") == []
    commit(target, [*second, *first])
    assert stored(out, "SELECT * FROM out") == [(1, "a"), (2, None), (3, "c")]
    assert hidden(out.parent) == []


def test_a_commit_that_is_repeated_changes_nothing(out: Path) -> None:
    target = sink(options(out, "out"), OUT)
    committables = written(target, [[(1, "a")]])
    kept = Path(committables[0].content["path"]).read_bytes()
    commit(target, committables)
    Path(committables[0].content["path"]).parent.mkdir()
    Path(committables[0].content["path"]).write_bytes(kept)
    commit(target, committables)
    assert stored(out, "SELECT * FROM out") == [(1, "a")]
    assert hidden(out.parent) == []


def test_an_abort_leaves_nothing(out: Path) -> None:
    target = sink(options(out, "out"), OUT)
    committables = written(target, [[(1, "a")]])
    connector("jdbc").sink(target, ChangelogMode.INSERT_ONLY, context()).abort()
    written(target, [[(2, "b")]], job_id="other")
    abort(target, committables)
    assert [name.split("-")[1] for name in hidden(out.parent)] == ["other"]
    assert stored(out, "SELECT name FROM sqlite_schema") == [("out",)]


def test_the_rows_of_a_job_are_staged_where_the_claims_of_dead_jobs_are_looked_for(out: Path) -> None:
    made, target = connector("jdbc"), sink(options(out, "out"), OUT)
    assert isinstance(made, StagesRows)
    (committable,) = written(target, [[(1, "a")]], job_id="a1")
    assert FILES.match_glob(made.staging_directory(target, "a1", "*")) == [
        str(Path(committable.content["path"]).parent)
    ]


@given(
    st.lists(
        changelogs(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None])), max_size=12), max_size=3
    )
)
@settings(max_examples=6, deadline=None)
def test_a_table_with_a_primary_key_holds_what_the_changes_leave(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[Row]]
) -> None:
    path = tmp_path_factory.mktemp("upsert") / "out.sqlite"
    run(path, "CREATE TABLE out (v TEXT, k BIGINT, PRIMARY KEY (k))")
    target, expected = sink(options(path, "out"), KEYED, (0,)), dict[int, Any]()
    for log in logs:
        for kind, k, v in log:
            expected.pop(k, None)
            if kind in ("+I", "+U"):
                expected[k] = v
        commit(target, written(target, [log[:5], log[5:]], ChangelogMode.RETRACT))
    assert dict(stored(path, "SELECT k, v FROM out")) == expected


def test_values_of_all_types_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    kept = [t for t in ALL_TYPES if t[1] not in ("12.5", "3", "12")]
    affinities = ["TEXT" if t[0].root is sql.TypeRoot.DECIMAL else "" for t in kept]
    run(path, f"CREATE TABLE out ({', '.join(f'c{i} {a}' for i, a in enumerate(affinities))})")
    schema = Schema.of(*((f"c{i}", t[0]) for i, t in enumerate(kept)))
    rows: list[Row] = [tuple(t[2] for t in kept), (None,) * len(kept)]
    target = sink(options(path, "out"), schema)
    commit(target, written(target, [rows]))
    assert read(source(options(path, "out"), schema)) == rows


@pytest.mark.parametrize(
    ("definition", "declared", "key", "code", "words"),
    [
        ("k BIGINT", sql.STRING, (), "SS5062", 'column "k" of table "out" has type BIGINT, which does not fit STRING'),
        ("k TEXT", sql.BIGINT, (), "SS5062", "has type TEXT, which does not fit BIGINT"),
        ("k NUMERIC", sql.decimal(20, 2), (), "SS5062", r"does not fit DECIMAL\(20, 2\)"),
        ("x INT", sql.INT, (), "SS5062", 'table "out" has no column "k"'),
        ("k INT", sql.INT, (0,), "SS5069", 'no unique constraint over "k"'),
    ],
)  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused_before_the_job_runs(
    tmp_path: Path, definition: str, declared: sql.LogicalType, key: tuple[int, ...], code: str, words: str
) -> None:
    path = tmp_path / "out.sqlite"
    run(path, f"CREATE TABLE out ({definition})")
    with pytest.raises(UserError, match=words) as raised:
        written(sink(options(path, "out"), Schema.of(("k", declared)), key), [])
    assert raised.value.code == code
    assert hidden(tmp_path) == []


def test_values_that_sqlite_would_change_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    run(path, "CREATE TABLE out (v DOUBLE)")
    target = sink(options(path, "out"), Schema.of(("v", sql.DOUBLE)))
    with pytest.raises(UserError, match='column "v"') as raised:
        commit(target, written(target, [[(float("nan"),)]]))
    assert "NaN" in raised.value.detail


def test_a_constraint_that_rows_break_leaves_the_table_as_it_was(out: Path) -> None:
    run(out, "CREATE UNIQUE INDEX one ON out (k)", "INSERT INTO out VALUES (1, 'old')")
    target = sink(options(out, "out"), OUT)
    with pytest.raises(SqlStreamError, match="refuses a value") as raised:
        commit(target, written(target, [[(2, "b"), (1, "new")]]))
    assert "UNIQUE constraint failed: out.k" in raised.value.detail
    assert stored(out, "SELECT * FROM out") == [(1, "old")]
    assert stored(out, "SELECT name FROM sqlite_schema WHERE type = 'table'") == [("out",)]


def test_a_commit_waits_for_another_process_that_has_locked_the_file(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sink(options(out, "out"), OUT)
    committables = written(target, [[(2, "b")]])
    monkeypatch.setattr(sqlite, "COMMIT_TIMEOUT_MS", 50)
    with locked(out), pytest.raises(ExternalError, match="is locked by another process"):
        commit(target, committables)
    commit(target, committables)
    assert stored(out, "SELECT * FROM out") == [(2, "b")]


def test_rows_that_have_vanished_fail_the_commit_and_change_nothing(out: Path) -> None:
    target = sink(options(out, "out"), OUT)
    lost, kept = written(target, [[(2, "b")]]), written(target, [[(3, "c")]], subtask=1)
    Path(lost[0].content["path"]).unlink()
    with pytest.raises(ExternalError, match="have vanished"):
        commit(target, [*lost, *kept])
    assert stored(out, "SELECT * FROM out") == []
    assert FILES.status(kept[0].content["path"]) is not None


def test_rows_that_are_damaged_fail_the_commit_and_change_nothing(out: Path) -> None:
    target = sink(options(out, "out"), OUT)
    committables = written(target, [[(2, "b")]])
    place = Path(committables[0].content["path"])
    rows = pa.ipc.open_file(place.read_bytes()).read_all()
    at = rows.schema.get_field_index("name")
    # Arrow opens such a file without an error: only its values are wrong.
    damaged = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")
    )
    rows = rows.set_column(at, rows.schema.field(at), damaged)
    with pa.OSFile(str(place), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(ExternalError, match="are damaged") as raised:
        commit(target, committables)
    assert (raised.value.code, "utf" in raised.value.detail.lower()) == ("SS5066", True)
    assert stored(out, "SELECT * FROM out") == []
