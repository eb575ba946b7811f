"""Tables that DuckDB reads by itself: which those are, what reaches its scan, and what happens to broken and forbidden files."""

from __future__ import annotations

import contextlib
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pytest
from batch_harness import NUMBERS, KeptRun, numbers, plan
from native_relation_harness import THROUGH_READER, comparable, parquet_table, write_file

from sqlstream import types as sql
from sqlstream.batch_plan import BatchPlan, BatchTable
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.batch.duckdb import DuckDbEngine
from sqlstream.runtime.batch.duckdb_tables import DuckDbTables
from sqlstream.runtime.batch.tables import batch_relation
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, SharedConnection
from sqlstream.runtime.connectors.duckdb.options import read_place
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.batch_relation import BatchRelation, DuckDbRelation, SparkRelation, ThroughReader
from sqlstream.types import LogicalType

ENGINE = DuckDbEngine()
FORTY = pa.array(range(40), pa.int64())


def run(given: BatchPlan, files: LocalFiles | None = None) -> KeptRun:
    kept = KeptRun(given)
    kept.files = files or LocalFiles()
    ENGINE.run(given, kept)
    return kept


def relation(table: BatchTable, files: LocalFiles | None = None, engine: str = "duckdb") -> BatchRelation:
    return batch_relation(table, engine, {}, files or LocalFiles(), lambda: False)


def reason(table: BatchTable, engine: str = "duckdb") -> str:
    found = relation(table, engine=engine)
    assert isinstance(found, ThroughReader)
    return found.reason


def one_column(tmp_path: Path, column: pa.Array, declared: LogicalType, **options: object) -> BatchTable:
    write_file(tmp_path / "a.parquet", {"x": column}, **options)
    return parquet_table(tmp_path, Schema.of(("x", declared)))


@pytest.mark.parametrize(
    ("column", "declared", "words"),
    [
        (pa.array([1], pa.uint8()), sql.SMALLINT, 'column "x" is UINT8'),
        (pa.array([1], pa.int64()), sql.INT, 'column "x" is int64, and declared INT'),
        (pa.array([1], pa.int32()), sql.DOUBLE, 'column "x" is int32, and declared DOUBLE'),
        (pa.array([b"a"]), sql.STRING, 'column "x" is binary, and declared STRING'),
        (pa.array([[1]]), sql.array(sql.BIGINT), 'column "x" is nested'),
        (pa.array([0], pa.timestamp("ns")), sql.timestamp(9), 'column "x" is TIMESTAMP[NS]'),
        (pa.array([0], pa.timestamp("us")), sql.timestamp_ltz(3), 'column "x" is timestamp[us], and declared TIMESTAMP_LTZ(3)'),
        (pa.array([0], pa.time32("ms")), sql.time(3), 'column "x" is TIME32[MS]'),
        (pa.array([b"1234"], pa.binary(4)), sql.BYTES, 'column "x" is FIXED_SIZE_BINARY[4]'),
    ],
)  # fmt: skip
def test_columns_that_an_engine_could_read_otherwise_are_read_through_our_reader(
    tmp_path: Path, column: pa.Array, declared: LogicalType, words: str
) -> None:
    table = one_column(tmp_path, column, declared)
    assert (reason(table), reason(table, "spark")) == (words, words)
    # What the query does not read does not matter.
    write_file(tmp_path / "a.parquet", {"x": column, "y": pa.array([1], pa.int64())})
    other = parquet_table(tmp_path, Schema.of(("x", declared), ("y", sql.BIGINT)), ("y",))
    assert isinstance(relation(other), DuckDbRelation)


def test_times_of_int96_are_read_through_our_reader(tmp_path: Path) -> None:
    column = pa.array([0], pa.timestamp("us"))
    table = one_column(tmp_path, column, sql.timestamp(3), use_deprecated_int96_timestamps=True)
    assert reason(table) == 'column "x" is INT96'


def test_values_that_statistics_do_not_bound_are_read_through_our_reader(tmp_path: Path) -> None:
    dates = pa.array([-719_162, 2_932_896], pa.int32()).cast(pa.date32())
    table = one_column(tmp_path, dates, sql.DATE)
    assert isinstance(relation(table), DuckDbRelation)
    assert reason(table, "spark").endswith('do not show that column "x" lies in the years 1900 to 9999')
    beyond = one_column(tmp_path, pa.array([2_932_897], pa.int32()).cast(pa.date32()), sql.DATE)
    assert reason(beyond).endswith('do not show that column "x" lies in the years 0001 to 9999')
    silent = one_column(tmp_path, dates, sql.DATE, write_statistics=False)
    assert reason(silent).endswith('do not show that column "x" lies in the years 0001 to 9999')
    assert isinstance(
        relation(one_column(tmp_path, FORTY, sql.BIGINT, write_statistics=False)), DuckDbRelation
    )


def test_names_that_duckdb_does_not_tell_apart_are_read_through_our_reader(tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", {"x": FORTY, "X": FORTY})
    table = parquet_table(tmp_path, Schema.of(("x", sql.BIGINT)))
    assert reason(table) == 'a file has several columns "x", but for the case of letters'
    assert len(run(plan("SELECT c0 FROM t0", NUMBERS, table)).rows()) == 40


def test_paths_that_an_engine_would_take_for_patterns_are_read_through_our_reader(tmp_path: Path) -> None:
    write_file(tmp_path / "a[1].parquet", {"x": FORTY})
    table = parquet_table(tmp_path, Schema.of(("x", sql.BIGINT)))
    assert "could misread the path" in reason(table)
    assert len(run(plan("SELECT c0 FROM t0", NUMBERS, table)).rows()) == 40


def test_what_cannot_be_opened_gives_the_error_of_our_reader(tmp_path: Path) -> None:
    schema = Schema.of(("x", sql.BIGINT), ("y", sql.BIGINT.not_null()))
    for content, code in ((None, "SS5002"), (b"no parquet", "SS5011"), ("other column", "SS5012")):
        if isinstance(content, bytes):
            (tmp_path / "a.parquet").write_bytes(content)
        elif content is not None:
            write_file(tmp_path / "a.parquet", {"x": FORTY})
        given = plan("SELECT c1 FROM t0", NUMBERS, parquet_table(tmp_path / "a.parquet", schema))
        with pytest.raises(SqlStreamError) as native:
            run(given)
        with pytest.raises(SqlStreamError) as ours:
            run(msgspec.structs.replace(given, config=THROUGH_READER))
        assert (native.value.code, native.value.message) == (ours.value.code, ours.value.message)
        if code != "SS5012":
            assert native.value.code == code


def torn(data: bytes, seed: int) -> bytes:
    """The file with some bytes of its pages changed; the footer stays."""
    draw, footer = random.Random(seed), int.from_bytes(data[-8:-4], "little") + 8
    changed, place = bytearray(data), draw.randrange(4, len(data) - footer - 40)
    for i in range(draw.choice([1, 8, 40])):
        changed[place + i] = draw.randrange(256)
    return bytes(changed)


def outcome(given: BatchPlan) -> list[str] | tuple[str, str]:
    try:
        return comparable(run(given).rows())
    except SqlStreamError as error:
        return error.code, error.message


@pytest.mark.parametrize("compression", ["SNAPPY", "NONE", "ZSTD"])
def test_torn_files_fail_with_the_error_of_our_reader(tmp_path: Path, compression: str) -> None:
    path, count = tmp_path / "a.parquet", 2000
    columns = {
        "i": pa.array([n * 7919 % 100_003 for n in range(count)], pa.int64()),
        "s": pa.array([f"text {n * 31 % 977}" for n in range(count)]),
    }
    write_file(path, columns, 500, compression=compression)
    data, schema = path.read_bytes(), Schema.of(("i", sql.BIGINT), ("s", sql.STRING))
    given = plan("SELECT c0, c1 FROM t0", schema, parquet_table(path, schema))
    seen = set()
    for seed in range(8):
        path.write_bytes(torn(data, seed))
        native = outcome(given)
        assert native == outcome(msgspec.structs.replace(given, config=THROUGH_READER))
        seen.add(native[0] if isinstance(native, tuple) else "rows")
    assert seen == {"rows", "SS5011"}


def test_a_failure_of_reading_underlines_the_table(tmp_path: Path) -> None:
    write_file(
        tmp_path / "a.parquet", {"x": pa.array(["a" * 10] * 100)}, compression="NONE", use_dictionary=False
    )
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data.replace(b"a" * 10, b"\xff" * 10, 5))
    schema = Schema.of(("x", sql.STRING))
    given = plan("SELECT c0 FROM t0", schema, parquet_table(tmp_path, schema))
    kept = KeptRun(given)
    with pytest.raises(UserError, match="as parquet"):
        ENGINE.run(given, kept)
    assert kept.blamed == "t0"


def test_nan_is_found_though_no_statistics_have_it(tmp_path: Path) -> None:
    column = pa.array([1.0, -0.0, 3.0, None, math.nan])
    table = one_column(tmp_path, column, sql.DOUBLE, row_group_rows=2)
    count = plan("SELECT count(*) FROM t0 WHERE c0 > 5", NUMBERS, table)
    assert run(count).rows() == [(1,)]
    (most,) = run(plan("SELECT max(c0) FROM t0", Schema.of(("m", sql.DOUBLE)), table)).rows()[0]
    assert math.isnan(most)
    assert run(plan("SELECT count(*) FROM t0 WHERE c0 = 0", NUMBERS, table)).rows() == [(1,)]


def test_explain_says_how_each_table_is_read_and_what_reaches_the_scan(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        write_file(tmp_path / f"day={day}" / "a.parquet", {"x": FORTY, "s": pa.array(["a"] * 40)})
    schema = Schema.of(("x", sql.BIGINT), ("s", sql.STRING), ("day", sql.DATE))
    table = parquet_table(tmp_path, schema, ("x", "s", "day"))
    query = "SELECT sum(c0) FROM t0 WHERE c2 = DATE '2024-01-02' AND c0 > 30 AND c1 <> 'b'"
    text = ENGINE.explain(plan(query, NUMBERS, table, numbers(3, "t1")), LocalFiles())
    assert text.startswith("t0: native parquet, 2 files\nt1: through sqlstream's reader\n")
    # One of the partitions is left, and the filter stands at the scan.
    assert text.count("Read Parquet") == 1
    assert "x > 30" in text
    kept = run(plan(query, Schema.of(("n", sql.decimal(38, 0))), table))
    assert [int(n) for (n,) in kept.rows()] == [sum(range(31, 40))]
    assert kept.counts["t0", "numRecordsOut"] == 80
    assert kept.counts["t0", "numBytesIn"] > 0
    off = plan(query, NUMBERS, table, config=THROUGH_READER)
    line = ENGINE.explain(off, LocalFiles()).splitlines()[0]
    assert line == "t0: through sqlstream's reader: 'execution.batch.native-relations.enabled' = 'false'"


def test_values_of_directories_and_metadata_are_those_of_our_reader(tmp_path: Path) -> None:
    for value in ("x", "a%3Ab", "it's", "__DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"):
        write_file(tmp_path / f"p={value}" / "a.parquet", {"x": FORTY[:2]})
    schema = Schema.of(("x", sql.BIGINT), ("p", sql.STRING))
    metadata = tuple(
        Field(key, t)
        for key, t in (
            ("file.path", sql.STRING),
            ("file.name", sql.STRING),
            ("file.size", sql.BIGINT),
            ("file.modification-time", sql.timestamp_ltz(3)),
        )
    )
    table = parquet_table(tmp_path, schema, metadata=metadata)
    given = plan("SELECT * FROM t0", table.schema, table)
    assert isinstance(relation(table), DuckDbRelation)
    native = outcome(given)
    assert len(native) == 10
    assert native == outcome(msgspec.structs.replace(given, config=THROUGH_READER))


def test_partitions_beyond_what_is_planned_are_read_through_our_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.files.native_parquet.SCANS_MAX", {"duckdb": 2})
    for value in range(3):
        write_file(tmp_path / f"p={value}" / "a.parquet", {"x": FORTY})
    table = parquet_table(tmp_path, Schema.of(("x", sql.BIGINT), ("p", sql.INT)))
    assert "3 partitions or layouts" in reason(table)


def test_many_small_files_are_read_through_our_reader(tmp_path: Path) -> None:
    for number in range(17):
        write_file(tmp_path / f"{number}.parquet", {"x": FORTY})
        table = parquet_table(tmp_path, Schema.of(("x", sql.BIGINT)))
        if number == 15:
            assert isinstance(relation(table), DuckDbRelation)
    assert reason(table) == "its 17 files are small"


def test_a_file_that_changes_while_it_is_read_fails_the_statement(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_file(path, {"x": FORTY})
    given = plan("SELECT c0 FROM t0", NUMBERS, parquet_table(path, Schema.of(("x", sql.BIGINT))))
    kept = KeptRun(given, lambda: write_file(path, {"x": pa.array(range(1000), pa.int64())}))
    with pytest.raises(SqlStreamError) as raised:
        ENGINE.run(given, kept)
    assert (raised.value.code, kept.blamed) == ("SS5071", "t0")


def test_files_outside_of_the_roots_are_read_by_nobody(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write_file(inside / "a.parquet", {"x": FORTY})
    write_file(outside / "b.parquet", {"x": FORTY})
    files = RootedFiles(FilePlaces((str(inside.resolve()),)))
    schema = Schema.of(("x", sql.BIGINT))
    assert isinstance(relation(parquet_table(inside, schema), files), DuckDbRelation)
    of_spark = relation(parquet_table(inside, schema), files, "spark")
    assert isinstance(of_spark, ThroughReader)
    assert of_spark.reason == "Spark does not check where a path leads when it opens it, as this server does"
    assert isinstance(relation(parquet_table(inside, schema), engine="spark"), SparkRelation)
    assert run(plan("SELECT count(*) FROM t0", NUMBERS, parquet_table(inside, schema)), files).rows() == [
        (40,)
    ]
    os.symlink(outside / "b.parquet", inside / "link.parquet")
    for path in (outside, inside):
        with pytest.raises(UserError) as raised:
            run(plan("SELECT count(*) FROM t0", NUMBERS, parquet_table(path, schema)), files)
        assert raised.value.code == "SS5030"


def test_the_database_opens_the_files_of_its_tables_and_no_others(tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", {"x": FORTY})
    write_file(tmp_path / "other.parquet", {"x": FORTY})
    table = parquet_table(tmp_path / "a.parquet", Schema.of(("x", sql.BIGINT)))
    with pytest.raises(SqlStreamError, match="disabled"):
        run(plan(f"SELECT count(*) FROM t0, '{tmp_path}/other.parquet'", NUMBERS, table))
    with pytest.raises(SqlStreamError, match=r"disabled|locked"):
        run(plan("SET allowed_paths = ['/etc/hostname']", NUMBERS, table))


# --- tables of DuckDB files


COLUMNS = Schema.of(
    ("i", sql.BIGINT), ("s", sql.STRING), ("f", sql.DOUBLE), ("d", sql.decimal(12, 2)), ("ts", sql.timestamp(3)),
    ("tz", sql.timestamp_ltz(6)), ("dt", sql.DATE), ("u", sql.STRING), ("u8", sql.INT), ("b", sql.BYTES),
)  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i::INTEGER AS i, 's' || i AS s, CASE WHEN i = 7 THEN 'nan'::DOUBLE ELSE i END AS f,"
            " (i || '.50')::DECIMAL(10, 2) AS d, TIMESTAMP '1969-12-31 23:59:00' + INTERVAL (i) SECOND AS ts,"
            " TIMESTAMPTZ '2020-01-01 00:00:00.123456+00' AS tz, DATE '2020-01-01' + i::INTEGER AS dt, uuid() AS u,"
            " 1::UTINYINT AS u8, 'x'::BLOB AS b, TIME '10:00:00' AS tm FROM range(200) r(i)"
        )
        connection.execute("INSERT INTO t (i) VALUES (NULL)")
        connection.execute("CREATE VIEW v AS SELECT * FROM t")
    return path


def duckdb_table(path: Path, columns: tuple[str, ...], name: str = "t0", of: str = "t") -> BatchTable:
    schema = Schema((*COLUMNS.fields, Field("tm", sql.time(0))))
    return BatchTable(
        name, SourceSpec(of, "duckdb", {"connector": "duckdb", "path": str(path)}, schema, columns)
    )


def test_tables_of_a_duckdb_file_are_attached_and_have_the_rows_of_our_reader(database: Path) -> None:
    table = duckdb_table(database, COLUMNS.names)
    given = plan("SELECT * FROM t0", COLUMNS, table)
    assert ENGINE.explain(given, LocalFiles()).startswith("t0: native, attached read-only\n")
    native = outcome(given)
    assert len(native) == 201
    assert native == outcome(msgspec.structs.replace(given, config=THROUGH_READER))
    both = plan(
        "SELECT count(*) FROM t0 JOIN t1 ON t0.c0 = t1.c0 WHERE t0.c0 > 100",
        NUMBERS,
        duckdb_table(database, ("i",)),
        duckdb_table(database, ("i",), "t1"),
    )
    assert run(both).rows() == [(99,)]
    nan = plan("SELECT count(*) FROM t0 WHERE c0 > 1000", NUMBERS, duckdb_table(database, ("f",)))
    assert run(nan).rows() == [(1,)]


def test_views_and_times_of_day_are_read_through_our_reader(database: Path) -> None:
    assert reason(duckdb_table(database, ("i",), of="v")) == '"v" is a view'
    assert reason(duckdb_table(database, ("tm",))) == 'column "tm" is TIME, and declared TIME(0)'
    assert run(plan("SELECT count(c0) FROM t0", NUMBERS, duckdb_table(database, ("i",), of="v"))).rows() == [
        (200,)
    ]


def test_a_timestamp_that_its_column_would_cut_fails_as_with_our_reader(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("INSERT INTO t (ts) VALUES (TIMESTAMP '2020-01-01 00:00:00.000001')")
    given = plan("SELECT c0 FROM t0", Schema.of(("ts", sql.timestamp(3))), duckdb_table(database, ("ts",)))
    native = outcome(given)
    assert native == outcome(msgspec.structs.replace(given, config=THROUGH_READER))
    assert native[0] == "SS5065"


def test_the_file_is_given_up_with_its_last_reader(database: Path) -> None:
    given = plan("SELECT count(c0) FROM t0", NUMBERS, duckdb_table(database, ("i",)))
    with INSTANCES.reading(read_place("t", {"path": str(database)}), LocalFiles()):
        assert run(given).rows() == [(200,)]
        assert _is_locked(database)
    assert not _is_locked(database)


def test_ended_queries_keep_few_databases_while_somebody_reads_the_file(database: Path) -> None:
    config = {"execution.batch.duckdb-threads": "3"}
    given = plan("SELECT count(c0) FROM t0", NUMBERS, duckdb_table(database, ("i",)), config=config)
    with INSTANCES.reading(read_place("t", {"path": str(database)}), LocalFiles()):
        counts = []
        for _ in range(12):
            assert run(given).rows() == [(200,)]
            counts.append(_thread_count())
        # Each of the eight others would keep two.
        assert counts[11] < counts[3] + 8
        assert ENGINE.explain(given, LocalFiles()).startswith(
            "t0: through sqlstream's reader: 4 other queries have its file attached"
        )
    assert _thread_count() < counts[11]
    assert not _is_locked(database)
    assert ENGINE.explain(given, LocalFiles()).startswith("t0: native, attached read-only\n")


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def test_a_database_that_is_kept_for_others_holds_none_of_the_run_s_rows(database: Path) -> None:
    shared = SharedConnection(duckdb.connect())
    read = msgspec.structs.replace(numbers(1000, "t1"), is_shared=True)
    given = plan("", NUMBERS, duckdb_table(database, ("i",)), read, numbers(10, "t2"))
    tables = DuckDbTables(given, KeptRun(given))
    tables.make(shared)
    named = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
    kept = {name for (name,) in shared.connection.execute(named).fetchall()}
    assert kept >= {"t0", "t1", "t2", "t"}
    with INSTANCES.reading(read_place("t", {"path": str(database)}), LocalFiles()):
        tables.close()
        # What is left is the file's own.
        assert sorted(shared.connection.execute(named).fetchall()) == [("t",), ("v",)]
    assert shared.connection.execute(named).fetchall() == []
    shared.release()


def test_a_file_stays_attached_for_the_second_table_when_the_first_has_failed(database: Path) -> None:
    found = relation(duckdb_table(database, ("i",)))
    assert isinstance(found, DuckDbRelation)
    shared = SharedConnection(duckdb.connect())
    with contextlib.ExitStack() as second:
        with INSTANCES.reading(read_place("t", {"path": str(database)}), LocalFiles()):
            with pytest.raises(ValueError, match="of the first"), found.attach(shared):
                raise ValueError("of the first")
            second.enter_context(found.attach(shared))
        assert shared.connection.execute(f"SELECT count(*) FROM ({found.query})").fetchall() == [(201,)]
    with pytest.raises(duckdb.Error, match="does not exist"):
        shared.connection.execute(found.query)
    shared.release()


def _is_locked(path: Path) -> bool:
    """Whether another process cannot write the database."""
    script = f"import duckdb; duckdb.connect({str(path)!r}).close()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0 or b"lock" in ended.stderr
    return ended.returncode != 0
