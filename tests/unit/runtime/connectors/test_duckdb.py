"""The connector `duckdb`: reading tables and files, by scan and by key, and what goes wrong."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from operator_harness import Row, batch, rows_of

from sqlstream import types as sql
from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.duckdb.database import IDLE_MAX, INSTANCES, Instances, _key
from sqlstream.runtime.connectors.duckdb.options import read_place
from sqlstream.runtime.connectors.duckdb.source import BLOCK_ROWS
from sqlstream.runtime.connectors.sql_tables import TRIES_MAX
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, LooksUp, SourceStatus

SCHEMA = Schema.of(("k", sql.BIGINT), ("name", sql.STRING), ("at", sql.timestamp(3)))
ROWS: list[Row] = [(1, "one", 1_000), (2, "two", 2_000), (2, "zwei", None), (4, None, 4_000)]
WRITER = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
connection.execute("INSERT INTO dim VALUES (9, 'nine', NULL, NULL)")
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE TABLE dim (k BIGINT, name VARCHAR, "at" TIMESTAMP, other BLOB)')
        for k, name, at in ROWS:
            connection.execute("INSERT INTO dim VALUES (?, ?, make_timestamp(? * 1000), NULL)", [k, name, at])
        connection.execute("CREATE VIEW two AS SELECT * FROM dim WHERE k = 2")
        connection.execute(
            "CREATE SCHEMA s; CREATE TABLE s.dim AS SELECT 7::BIGINT AS k, 'seven' AS name, NULL::TIMESTAMP AS \"at\""
        )
    return path


def spec(
    path: Path | str, schema: Schema = SCHEMA, columns: tuple[str, ...] = (), **options: str
) -> SourceSpec:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    others = {"filters": named.pop("filters", ()), "limit": int(named.pop("limit", -1))}
    return SourceSpec(
        "dim", "duckdb", {"path": str(path), **named}, schema, columns or schema.names, **others
    )  # type: ignore[arg-type]


def context(
    subtask: int = 0,
    parallelism: int = 1,
    batch_rows: int = 3,
    files: Any = None,
    now_ms: Callable[[], int] = lambda: 0,
) -> ConnectorContext:
    return ConnectorContext(
        "job",
        "vertex",
        subtask,
        parallelism,
        0,
        batch_rows,
        {},
        now_ms,
        lambda name, n: None,
        files or LocalFiles(),
    )


def read(
    source: SourceSpec, splits: list[dict[str, Any]] | None = None, of: str = "duckdb", **surroundings: Any
) -> list[Row]:
    # Whoever polls again has waited for long enough.
    surroundings.setdefault("now_ms", itertools.count(0, 10_000).__next__)
    reader, rows = connector(of).source(source, context(**surroundings), splits), list[Row]()
    try:
        while (polled := reader.poll()) is not SourceStatus.END:
            if isinstance(polled, pa.RecordBatch):
                rows += rows_of(polled)
    finally:
        reader.close()
    return rows


def look_up(
    source: SourceSpec, keys: list[Row], by: tuple[str, ...] = ("k",), files: Any = None
) -> list[Row]:
    made = connector("duckdb")
    assert isinstance(made, LooksUp)
    schema = source.schema.select(tuple(source.schema.index_of(name) for name in by))
    found = made.lookup_source(source, by, context(files=files)).lookup(batch(schema, keys))
    return sorted(rows_of(found), key=repr)


# -- scans -----------------------------------------------------------------------------------------------------------------


def test_a_table_is_read_with_the_declared_types(database: Path) -> None:
    assert read(spec(database)) == ROWS


def test_only_the_columns_that_are_wanted_are_read(database: Path) -> None:
    assert read(spec(database, columns=("name",))) == [("one",), ("two",), ("zwei",), (None,)]


def test_a_view_and_a_table_of_another_schema_are_read_by_name(database: Path) -> None:
    assert read(spec(database, table_name="two")) == ROWS[1:3]
    assert read(spec(database, table_name="s.dim")) == [(7, "seven", None)]


def test_filters_and_a_limit_are_left_to_duckdb(database: Path) -> None:
    two = Call("=", (InputRef(0, sql.BIGINT), Literal(2, sql.BIGINT)), sql.BOOLEAN)
    quoted = Call("<>", (InputRef(1, sql.STRING), Literal("o'ne", sql.STRING)), sql.BOOLEAN)
    assert read(spec(database, filters=(two, quoted))) == ROWS[1:3]  # type: ignore[arg-type]
    assert len(read(spec(database, limit="2"))) == 2


def test_an_order_of_texts_is_not_left_to_duckdb(database: Path) -> None:
    above = Call(">", (InputRef(1, sql.STRING), Literal("p", sql.STRING)), sql.BOOLEAN)
    assert len(read(spec(database, filters=(above,)))) == 4  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE dim AS SELECT range::BIGINT AS k FROM range({2 * BLOCK_ROWS + 10})")
        connection.execute(f"DELETE FROM dim WHERE k BETWEEN 5 AND {BLOCK_ROWS + 5}")
    return path


NUMBERS = Schema.of(("k", sql.BIGINT))


def test_one_subtask_reads_all_rows_as_another_could_begin_after_a_write(large: Path) -> None:
    parts = [read(spec(large, NUMBERS), subtask=i, parallelism=3, batch_rows=100_000) for i in range(3)]
    expected = [*range(5), *range(BLOCK_ROWS + 6, 2 * BLOCK_ROWS + 10)]
    assert [[k for (k,) in part] for part in parts] == [expected, [], []]


def test_a_reader_goes_on_where_another_stopped(large: Path) -> None:
    source, rows = spec(large, NUMBERS), list[Row]()
    reader = connector("duckdb").source(source, context(batch_rows=100_000), None)
    for _ in range(3):
        polled = reader.poll()
        assert isinstance(polled, pa.RecordBatch)
        rows += rows_of(polled)
    splits = reader.snapshot()
    reader.close()
    assert rows + read(source, splits, batch_rows=100_000) == read(source, batch_rows=100_000)


@pytest.mark.parametrize("parquet", [False, True])
def test_uuids_and_enums_that_are_declared_as_texts_are_compared_as_texts(
    tmp_path: Path, parquet: bool
) -> None:
    path, stored = tmp_path / "ids.duckdb", "6f8b1f0a-0000-4000-8000-000000000001"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE dim AS SELECT '{stored}'::UUID AS k, 'a'::ENUM('a', 'b') AS name")
        connection.execute(f"COPY dim TO '{tmp_path}/ids.parquet'")
    schema = Schema.of(("k", sql.STRING), ("name", sql.STRING))
    source = tmp_path / "ids.parquet" if parquet else path

    def found(function: str, column: int, value: str) -> list[Row]:
        condition = Call(function, (InputRef(column, sql.STRING), Literal(value, sql.STRING)), sql.BOOLEAN)
        return read(spec(source, schema, filters=(condition,)))  # type: ignore[arg-type]

    row = (stored, "a")
    assert found("<>", 0, stored.upper()) == [row]
    assert found("=", 0, "abc") == []
    assert found("=", 0, stored) == [row]
    assert found("=", 1, "z") == []
    assert look_up(spec(source, schema), [("abc",), (stored.upper(),)]) == []
    assert look_up(spec(source, schema), [(stored, "a"), ("abc", "z")], ("k", "name")) == [row]


# -- lookups ---------------------------------------------------------------------------------------------------------------


def test_all_keys_of_a_batch_are_answered_by_one_query(database: Path) -> None:
    assert look_up(spec(database), [(2,), (4,), (5,)]) == sorted([ROWS[1], ROWS[2], ROWS[3]], key=repr)


def test_a_key_may_have_several_columns_and_special_values(database: Path) -> None:
    assert look_up(spec(database), [(2, "zwei"), (2, "it's"), (1, "zwei")], ("k", "name")) == [ROWS[2]]
    assert look_up(spec(database), [(4_000,), (2_000,)], ("at",)) == sorted([ROWS[1], ROWS[3]], key=repr)


def test_between_two_lookups_another_process_may_write_the_file(database: Path) -> None:
    made = connector("duckdb")
    assert isinstance(made, LooksUp)
    source = made.lookup_source(spec(database), ("k",), context())
    assert source.lookup(batch(NUMBERS, [(9,)])).num_rows == 0
    subprocess.run(
        [sys.executable, "-c", WRITER, str(database)], input="\n", text=True, timeout=60, check=True
    )
    assert rows_of(source.lookup(batch(NUMBERS, [(9,)]))) == [(9, "nine", None)]


@pytest.fixture
def writer(database: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the database open."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.wait(60)


def test_a_file_that_another_process_writes_is_locked_for_now(
    database: Path, writer: subprocess.Popen[str]
) -> None:
    with pytest.raises(ExternalError, match="is locked by another process that writes it") as raised:
        look_up(spec(database), [(1,)])
    assert (raised.value.code, raised.value.retry) == ("SS5061", Retry.BACKOFF)


def test_a_scan_waits_for_the_file_with_growing_pauses(database: Path, writer: subprocess.Popen[str]) -> None:
    now = [0]
    reader = connector("duckdb").source(spec(database), context(now_ms=lambda: now[0]), None)
    tries = []
    for _ in range(TRIES_MAX - 2):
        # A task polls whenever it has something to do, as at a checkpoint.
        for _ in range(TRIES_MAX):
            assert reader.poll() is SourceStatus.NOTHING_YET
        now[0] = reader.next_poll_ms() or 0
        tries.append(now[0])
    assert tries == [200, 600, 1400]
    writer.communicate("\n", timeout=60)
    assert isinstance(reader.poll(), pa.RecordBatch)
    reader.close()


def test_many_readers_in_one_process_share_one_database_and_release_it(database: Path) -> None:
    place = read_place("dim", {"path": str(database)})
    with (
        INSTANCES.reading(place, LocalFiles()) as first,
        INSTANCES.reading(place, LocalFiles()) as second,
    ):
        assert first.alias == second.alias
        assert second.connection.execute(f"SELECT count(*) FROM {first.alias}.dim").fetchall() == [(4,)]
    subprocess.run(
        [sys.executable, "-c", WRITER, str(database)], input="\n", text=True, timeout=60, check=True
    )


def replace(path: Path, table: str) -> None:
    """Put another database into the place of the one at `path`, at once."""
    other = path.with_suffix(".other")
    with duckdb.connect(str(other)) as connection:
        connection.execute(f"CREATE {table}")
    other.replace(path)


NAMED = Schema.of(("k", sql.BIGINT), ("name", sql.STRING))


def test_a_database_that_is_replaced_between_two_lookups_is_read_anew(tmp_path: Path) -> None:
    path, made = tmp_path / "d.duckdb", connector("duckdb")
    replace(path, "TABLE dim AS SELECT 1::BIGINT AS k, 'a' AS name")
    assert isinstance(made, LooksUp)
    source, keys = made.lookup_source(spec(path, NAMED), ("k",), context()), batch(NUMBERS, [(1,), (2,)])
    assert rows_of(source.load(9)) == rows_of(source.lookup(keys)) == [(1, "a")]
    for table in ("TABLE dim AS SELECT 2::INT AS k, 'b' AS name", "VIEW dim AS SELECT 'b' AS name, 2 AS k"):
        replace(path, table)
        assert rows_of(source.load(9)) == rows_of(source.lookup(keys)) == [(2, "b")]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("TABLE dim AS SELECT '1' AS k, 'a' AS name", 'column "k" of table "dim" has DuckDB\'s type VARCHAR'),
        ("TABLE dim AS SELECT 'x' AS k, 'a' AS name", 'column "k" of table "dim" has DuckDB\'s type VARCHAR'),
        ("TABLE dim AS SELECT 1::BIGINT AS k, 2 AS name", "has DuckDB's type INTEGER, and not STRING"),
        ("TABLE dim AS SELECT 1::BIGINT AS k", 'has no column "name"'),
        ("TABLE mid AS SELECT 1::BIGINT AS k", 'there is no table "dim"'),
    ],
)
def test_a_database_that_is_replaced_by_one_that_does_not_fit_is_refused_as_at_first(
    tmp_path: Path, table: str, words: str
) -> None:
    path, made = tmp_path / "d.duckdb", connector("duckdb")
    replace(path, "TABLE dim AS SELECT 1::BIGINT AS k, 'a' AS name")
    assert isinstance(made, LooksUp)
    source, keys = made.lookup_source(spec(path, NAMED), ("k",), context()), batch(NUMBERS, [(1,)])
    source.load(9)
    replace(path, table)
    for ask in (lambda: source.load(9), lambda: source.lookup(keys)):
        with pytest.raises(UserError) as raised:
            ask()
        assert raised.value.code == "SS5062"
        assert words in raised.value.message
    path.unlink()
    with pytest.raises(ExternalError, match="there is no file") as gone:
        source.load(9)
    assert gone.value.retry is Retry.BACKOFF


# -- files -----------------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_columns_of_csv_files_are_found_by_name_or_by_place(tmp_path: Path) -> None:
    named = write(tmp_path / "a.csv", 'at,extra,name,k\n1970-01-01 00:00:01,x,"o,ne",1\n,,,2\n')
    assert look_up(spec(named), [(1,), (2,)]) == [(1, "o,ne", 1_000), (2, None, None)]
    placed = write(tmp_path / "b.csv", "1;one;1970-01-01 00:00:01\n")
    options = {"csv.header": "false", "csv.field-delimiter": ";"}
    assert read(SourceSpec("dim", "duckdb", {"path": str(placed), **options}, SCHEMA, SCHEMA.names)) == [
        ROWS[0]
    ]


def test_json_and_parquet_files_and_patterns_are_read(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.jsonl", '{"k": 1, "name": "one", "at": "1970-01-01 00:00:01"}\n{"k": 2}\n')
    assert read(spec(lines)) == [ROWS[0], (2, None, None)]
    for i, row in enumerate(ROWS[:2]):
        pa.parquet.write_table(pa.Table.from_batches([batch(SCHEMA, [row])]), tmp_path / f"part-{i}.parquet")
    assert read(spec(tmp_path / "part-*.parquet")) == ROWS[:2]


def test_the_files_of_a_full_cache_are_loaded_up_to_a_bound(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "k\n1\n2\n3\n")
    made = connector("duckdb")
    assert isinstance(made, LooksUp)
    source = made.lookup_source(spec(path, NUMBERS), ("k",), context())
    assert source.load(3).num_rows == 3
    with pytest.raises(UserError, match="more than the 2 rows that a FULL cache takes"):
        source.load(2)


@pytest.mark.parametrize("is_lookup", [False, True])
def test_a_long_query_ends_when_the_task_is_cancelled(tmp_path: Path, is_lookup: bool) -> None:
    path = tmp_path / "long.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE VIEW dim AS SELECT sum(hash(range)::HUGEINT)::BIGINT AS k FROM range(1000000000000)"
        )
    interrupts: list[Callable[[], None]] = []
    surroundings = dataclasses.replace(context(), on_cancel=interrupts.append)
    made = connector("duckdb")
    assert isinstance(made, LooksUp)
    by_key = made.lookup_source(spec(path, NUMBERS), ("k",), surroundings)
    reader = made.source(spec(path, NUMBERS), surroundings, None)
    timer = threading.Timer(1, lambda: [interrupt() for interrupt in interrupts])
    timer.start()
    begin = functools.partial(by_key.lookup, batch(NUMBERS, [(1,)])) if is_lookup else reader.poll
    with pytest.raises(ExternalError):
        begin()
    timer.join()
    reader.close()


TRUSTED = Schema.of(("k", sql.BIGINT.not_null()), ("name", sql.char(2).not_null()), ("note", sql.varchar(2)))
TRUSTED_ROWS: list[Row] = [(1, "a", "long"), (None, None, None), (3, "long", "b")]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "duckdb"])
def test_not_null_and_lengths_are_the_words_of_the_table_as_for_a_table_of_filesystem(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"t.{ending}"
    nullable = Schema.of(("k", sql.BIGINT), ("name", sql.STRING), ("note", sql.STRING))
    table = pa.Table.from_batches([batch(nullable, TRUSTED_ROWS)])
    if ending == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE dim AS SELECT * FROM given")
    elif ending == "parquet":
        pa.parquet.write_table(table, path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    assert read(spec(path, TRUSTED)) == TRUSTED_ROWS
    assert look_up(spec(path, TRUSTED), [(1,), (3,)]) == [TRUSTED_ROWS[0], TRUSTED_ROWS[2]]
    if ending != "duckdb":
        options = {"path": str(path), "format": ending.removesuffix("l")}
        files = SourceSpec("dim", "filesystem", options, TRUSTED, TRUSTED.names)
        assert read(files, of="filesystem") == TRUSTED_ROWS


# -- errors ----------------------------------------------------------------------------------------------------------------


def refused(source: SourceSpec) -> SqlStreamError:
    with pytest.raises(SqlStreamError) as raised:
        read(source)
    with pytest.raises(SqlStreamError) as by_key:
        look_up(source, [(1,)])
    assert str(by_key.value) == str(raised.value)
    return raised.value


def test_missing_and_foreign_files_are_named(tmp_path: Path) -> None:
    assert "there is no file" in refused(spec(tmp_path / "none.duckdb")).message
    assert "there is no file" in refused(spec(tmp_path / "none.csv")).message
    assert "no file matches" in refused(spec(tmp_path / "*.csv")).message
    other = write(tmp_path / "text.duckdb", "not a database" * 100)
    assert "is no duckdb database" in refused(spec(other)).message


def test_missing_tables_and_columns_are_named_with_what_there_is(database: Path, tmp_path: Path) -> None:
    error = refused(spec(database, table_name="dims"))
    assert (error.message, error.hint) == (f'there is no table "dims" in "{database}"', 'did you mean "dim"?')
    wider = Schema.of(("k", sql.BIGINT), ("nmae", sql.STRING))
    error = refused(spec(database, wider))
    assert error.message == 'table "dim" has no column "nmae", which table "dim" declares'
    assert error.hint == 'did you mean "name"?'
    text = write(tmp_path / "a.csv", "k,name\n1,one\n")
    assert 'has no column "nmae"' in refused(spec(text, wider)).message


@pytest.mark.parametrize("declared", [sql.INT, sql.STRING, sql.decimal(18, 0), sql.timestamp(3)], ids=str)
def test_a_column_of_another_type_is_refused(database: Path, declared: sql.LogicalType) -> None:
    with pytest.raises(UserError) as raised:
        read(spec(database, Schema.of(("k", declared))))
    error = raised.value
    assert error.code == "SS5062"
    assert "has DuckDB's type BIGINT" in error.message


def test_a_value_that_the_declared_type_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fine.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE dim AS SELECT 1::BIGINT AS k, 'x' AS name, TIMESTAMP '2020-01-01 00:00:00.000001' AS \"at\""
        )
    error = refused(spec(path))
    assert (error.code, error.message) == (
        "SS5065",
        'a value of column "at" of table "dim" does not fit TIMESTAMP(3)',
    )
    text = write(tmp_path / "a.csv", "k\n1\nx\n")
    assert refused(spec(text, NUMBERS)).code == "SS5065"


def test_a_server_reads_no_file_outside_of_its_directories(database: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    files = RootedFiles(FilePlaces((str(inside),)))
    link = inside / "link.duckdb"
    link.symlink_to(database)
    for path in (database, link):
        with pytest.raises(UserError, match="lies outside"):
            read(spec(path), files=files)
        with pytest.raises(UserError, match="lies outside"):
            look_up(spec(path), [(1,)], files=files)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1::BIGINT AS k FROM read_text('{other}')",
        "SELECT k FROM '{other}'",
    ],
)
def test_a_view_reads_nothing_but_its_own_database(database: Path, tmp_path: Path, query: str) -> None:
    other = write(tmp_path / "secret.csv", "k\n1\n")
    query = query.format(other=other)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE VIEW leak AS {query}")
    reader = connector("duckdb").source(spec(tmp_path / "secret.csv", NUMBERS), context(), None)
    assert isinstance(reader.poll(), pa.RecordBatch)
    with pytest.raises(SqlStreamError):
        read(spec(database, NUMBERS, table_name="leak"))
    reader.close()


def test_moments_in_csv_files_are_in_utc_whatever_the_zone_of_the_machine(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "moment\n1970-01-01 00:00:01\n")
    read_it = (
        "from sqlstream.runtime.connectors.duckdb.database import INSTANCES;"
        "from sqlstream.runtime.connectors.duckdb.options import read_place;"
        "from sqlstream.runtime.host.files import LocalFiles; import sys\n"
        "with INSTANCES.reading(read_place('t', {'path': sys.argv[1]}), LocalFiles()) as reading:\n"
        "    item = f\"read_csv('{sys.argv[1]}', columns = {{'moment': 'TIMESTAMPTZ'}})\"\n"
        "    print(reading.connection.execute(f'SELECT epoch_ms(moment) FROM {item}').fetchall())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", read_it, str(path)],
        env={**os.environ, "TZ": "Asia/Tokyo", "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "[(1000,)]\n", done.stderr


def test_who_has_another_password_does_not_share_an_attached_database() -> None:
    options = {"path": "dbname=a", "type": "postgres", "username": "u"}
    instances = Instances()
    keys = [_key(read_place("t", {**options, "password": word}), LocalFiles()) for word in ("a", "b", "a")]
    entered = [instances._enter(key) for key in keys]
    assert entered[0] is entered[2] is not entered[1]


def test_a_database_that_is_being_attached_delays_no_other(database: Path) -> None:
    place = read_place("t", {"path": "dbname=a", "type": "postgres"})
    instance = INSTANCES._enter(key := _key(place, LocalFiles()))
    with instance.lock:
        assert read(spec(database)) == ROWS
    INSTANCES._leave(key, instance)
    assert key not in INSTANCES._instances


def test_memory_is_bounded_and_spilled_to_a_directory_of_this_user_alone(database: Path) -> None:
    with INSTANCES.reading(read_place("dim", {"path": str(database)}), LocalFiles()) as reading:
        query = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ((memory, directory),) = reading.connection.execute(query).fetchall()
    assert memory == "953.6 MiB"
    assert stat.S_IMODE(Path(directory).parent.stat().st_mode) == 0o700
    assert Path(directory).parent.name.startswith("sqlstream-spill-")


def test_instances_without_readers_are_few(tmp_path: Path) -> None:
    for i in range(IDLE_MAX + 3):
        assert read(spec(write(tmp_path / f"{i}.csv", f"k\n{i}\n"), NUMBERS)) == [(i,)]
    assert len(INSTANCES._instances) == IDLE_MAX


def test_a_server_connects_to_database_servers_where_it_is_told_to(tmp_path: Path) -> None:
    source = spec("host=localhost", NUMBERS, type="postgres")
    with pytest.raises(UserError, match="connects to no database servers"):
        read(source, files=RootedFiles(FilePlaces()))
    with pytest.raises(UserError, match="connects to no database servers"):
        look_up(source, [(1,)], files=RootedFiles(FilePlaces()))
    with pytest.raises(UserError, match="cannot load its extension postgres_scanner"):
        read(source, files=RootedFiles(FilePlaces(has_database_servers=True)))


def test_a_missing_extension_is_named_with_its_package(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", "")
    with pytest.raises(UserError, match="cannot load its extension sqlite_scanner") as raised:
        read(spec(path))
    assert "pip install duckdb-extension-sqlite-scanner" in raised.value.hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "x.txt"}, "does not say what is there"),
        ({"path": "x.csv", "table-name": "t"}, '"table-name" has no use for a table of type csv'),
        ({"path": "x.duckdb", "csv.header": "true"}, '"csv.header" has no use'),
        ({"path": "x.duckdb", "password": "p"}, '"password" has no use'),
        ({"path": "*.duckdb"}, "is a pattern"),
        ({"path": "dbname=x password=y", "type": "postgres"}, "contains a password"),
        ({"path": "host=h passwd = y", "type": "mysql"}, "contains a password"),
        ({"path": "postgresql://u:secret@h/d", "type": "postgres"}, "is no address of a postgres server"),
        ({"path": "host=h passfile=/x", "type": "postgres"}, 'contains "passfile", which an address'),
        ({"path": "host='a' service=x", "type": "postgres"}, 'contains "service"'),
        ({"path": "host='a'passfile=x", "type": "postgres"}, "is no address"),
        ({"path": "host=h ssl_key=x", "type": "mysql"}, 'contains "ssl_key"'),
        ({"path": "x.csv", "csv.field-delimiter": "ab"}, "takes one character"),
        ({"path": "x.duckdb", "lookup.partial-cache.max-rows": "5"}, "has no use with 'lookup.cache' = 'NONE'"),
        ({"path": "x.duckdb", "lookup.cache": "PARTIAL", "lookup.full-cache.max-rows": "5"}, "has no use"),
        ({"path": "x.duckdb", "lookup.cache": "FULL", "lookup.full-cache.reload-strategy": "TIMED"}, "needs a time"),
        (
            {"path": "x.duckdb", "lookup.cache": "FULL", "lookup.full-cache.timed-reload.iso-time": "10:15"},
            "'lookup.full-cache.reload-strategy' = 'PERIODIC'",
        ),
        (
            {"path": "x.duckdb", "lookup.cache": "FULL", "lookup.full-cache.reload-strategy": "TIMED",
             "lookup.full-cache.timed-reload.iso-time": "noon"},
            'takes a time, not "noon"',
        ),
        (
            {"path": "x.duckdb", "lookup.cache": "FULL", "lookup.full-cache.periodic-reload.schedule-mode": "FIXED_RATE"},
            "needs an interval",
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as raised:
        connector("duckdb").validate("dim", SCHEMA, options)
    assert words in raised.value.message
    assert raised.value.hint


def test_an_address_of_a_server_has_quoted_values() -> None:
    path = "dbname='a b' host=h port = 5432 user='o\\'x'"
    assert read_place("t", {"path": path, "type": "postgres"}).path == path


def test_names_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(UserError, match='"k" and "K" have one name in DuckDB'):
        connector("duckdb").validate("dim", Schema.of(("k", sql.INT), ("K", sql.INT)), {"path": "x.duckdb"})


def test_rows_of_a_writer_that_was_killed_are_read(tmp_path: Path) -> None:
    path = tmp_path / "killed.duckdb"
    killed = "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('CREATE TABLE dim AS SELECT 1::BIGINT AS k')"
    done = subprocess.run(
        [sys.executable, "-c", f"{killed}; os.kill(os.getpid(), 9)", str(path)], timeout=240, check=False
    )
    assert done.returncode == -9
    assert read(spec(path, NUMBERS)) == [(1,)]
    assert look_up(spec(path, NUMBERS), [(1,)]) == [(1,)]


@pytest.mark.parametrize(
    "declared", [sql.array(sql.array(sql.INT)), sql.array(sql.BYTES), sql.timestamp_ltz(9)], ids=str
)
def test_types_that_duckdb_cannot_hold_are_refused(declared: sql.LogicalType) -> None:
    with pytest.raises(UserError) as raised:
        connector("duckdb").validate("dim", Schema.of(("a", declared)), {"path": "x.duckdb"})
    assert raised.value.message == f'connector "duckdb" carries no {declared}, the type of column "a"'


def test_arrays_of_files_whose_arrays_are_texts_are_refused() -> None:
    schema = Schema.of(("a", sql.array(sql.INT)))
    connector("duckdb").validate("dim", schema, {"path": "x.parquet"})
    with pytest.raises(UserError, match="at type csv: that of column"):
        connector("duckdb").validate("dim", schema, {"path": "x.csv"})
