"""Tables of files in S3, against a real server: written, read, committed by processes that die, and refused in clear words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_harness import sqlstream
from commit_harness import CheckpointedJob
from s3_harness import S3, running_s3

from sqlstream import types as sql
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.files import filesystem
from sqlstream.runtime.host.file_systems import files_of
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.testing.mortal_files import Process

SLOW = pytest.mark.slow
pytestmark = pytest.mark.timeout(300)

PLAN = [(5, True, True), (4, False, True), (3, True, False), (6, True, True), (2, True, True)]
SCHEMA = Schema.of(("v", sql.STRING), ("p", sql.INT))
CHANGES = frozenset({"copy_file", "delete_file", "delete_dir", "create_dir", "open_output_stream"})


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with running_s3() as server:
        yield server


def with_options(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


@pytest.mark.parametrize(
    "format", [pytest.param("csv", marks=SLOW), "json", pytest.param("parquet", marks=SLOW)]
)
def test_a_table_is_written_and_read_with_partitions_and_metadata(store: S3, format: str) -> None:
    options = with_options(store.options(f"s3://bucket/{format}/flights", format=format))
    table = f"CREATE TABLE flights (city STRING, n BIGINT) PARTITIONED BY (city) WITH ({options});"
    rows = "('Köln', 1), ('New/York', 2), ('Köln', 3)"
    for _ in range(2):
        done = sqlstream("run", "-c", f"{table} INSERT INTO flights VALUES {rows};")
        assert done.returncode == 0, done.stderr
    done = sqlstream(
        "run",
        "--format",
        "csv",
        "-c",
        f"{table} SELECT city, SUM(n) AS s FROM flights GROUP BY city ORDER BY city;",
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(["city,s", "Köln,8", "New/York,4"])


def test_a_pattern_and_the_path_of_a_file(store: S3) -> None:
    options = store.options("s3://bucket/names/t", format="csv")
    done = sqlstream(
        "run", "-c", f"CREATE TABLE t (v INT) WITH ({with_options(options)}); INSERT INTO t VALUES 1, 2;"
    )
    assert done.returncode == 0, done.stderr
    options["path"] = "s3://bucket/na*/*/part-*.csv"
    script = f"""CREATE TABLE t (v INT, place STRING METADATA FROM 'file.path') WITH ({with_options(options)});
        SELECT DISTINCT SUBSTRING(place FROM 1 FOR 25) AS place FROM t;"""
    done = sqlstream("run", "--format", "csv", "-c", script)
    assert done.stdout.split() == ["place", "s3://bucket/names/t/part-"], done.stderr


def test_what_cannot_be_reached_is_named_without_the_key(store: S3) -> None:
    for path in ("s3://bucket/none", "s3://nobody-has-this/t"):
        options = with_options(store.options(path, format="csv"))
        done = sqlstream("run", "-c", f"CREATE TABLE t (v INT) WITH ({options}); SELECT * FROM t;")
        assert done.returncode == 1
        assert path in done.stderr
        assert "very secret" not in done.stderr


class MortalStore:
    """A store's file system, in a process that may die before and after each call that changes something."""

    def __init__(self, store: Any, process: Process) -> None:
        self._store = store
        self._process = process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in CHANGES:
            return method

        def call(*arguments: Any, **named: Any) -> Any:
            self._process.call()
            result = method(*arguments, **named)
            self._process.call()
            return result

        return call


@SLOW
@pytest.mark.parametrize("death", range(0, 120, 17))
def test_every_row_is_there_once_wherever_the_process_dies(
    store: S3, death: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = store.options(f"s3://bucket/deaths/{death}", format="csv")
    system = files_of(options, LocalFiles())._store  # type: ignore[attr-defined]
    monkeypatch.setattr(filesystem, "files_of", lambda options, files: files)

    def visible() -> list[int]:
        files = StoreFiles(system, "s3://")
        spec = SourceSpec("t", "filesystem", options, SCHEMA, ("v",))
        context = ConnectorContext("r", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, files)
        if files.status(options["path"]) is None:
            return []
        reader, found = connector("filesystem").source(spec, context, None), list[int]()
        while (batch := reader.poll()) is not SourceStatus.END:
            if not isinstance(batch, SourceStatus):
                found += map(int, batch.column(0).to_pylist())
        reader.close()
        return found

    job = CheckpointedJob(
        *(SinkSpec("t", "filesystem", options, SCHEMA, partition_keys=(1,)), PLAN, [death], visible),
        files=lambda process: StoreFiles(MortalStore(system, process), "s3://"),  # type: ignore[arg-type]
    )
    rows = job.run()
    assert job.died > 0
    assert sorted(visible()) == list(range(rows))


@SLOW
def test_large_files_come_in_several_parts(store: S3, tmp_path: Path) -> None:
    options = with_options(store.options("s3://bucket/large", format="csv"))
    script = f"""CREATE TABLE numbers (n BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '300000',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '300000', 'fields.s.length' = '100');
        CREATE TABLE large (n BIGINT, s STRING) WITH ({options});
        INSERT INTO large SELECT * FROM numbers;"""
    done = sqlstream("run", "-c", script)
    assert done.returncode == 0, done.stderr
    script = f"""CREATE TABLE large (n BIGINT, s STRING) WITH ({options});
        SELECT COUNT(*) AS c, SUM(n) AS n, SUM(CHAR_LENGTH(s)) AS l FROM large;"""
    done = sqlstream("run", "--format", "csv", "-c", script)
    assert done.stdout.split() == ["c,n,l", "300000,45000150000,30000000"], done.stderr


@pytest.fixture(scope="module")
def locked_store() -> Iterator[S3]:
    with running_s3() as server:
        server.require_keys()
        yield server


@pytest.mark.parametrize(
    "script",
    [
        "SELECT * FROM t",
        "SELECT * FROM t /*+ OPTIONS('path'='s3://bucket/a.csv') */",
        "INSERT INTO t SELECT 1",
        "INSERT INTO t SELECT n FROM g",
        # The directory of checkpoints alone lies in the store.
        "SET 'execution.checkpointing.dir' = 's3://bucket/c'; INSERT INTO b SELECT n FROM g",
    ],
)
def test_wrong_keys_fail_a_job_at_once_although_it_would_restart(locked_store: S3, script: str) -> None:
    keys = ("s3.endpoint", "s3.access-key", "s3.secret-key")
    options = locked_store.options("s3://bucket/t", format="csv")
    sets = "".join(f"SET '{key}' = '{options[key]}'; " for key in keys)
    done = sqlstream(
        "run",
        "-c",
        f"""{sets}SET 'execution.checkpointing.interval' = '50 ms';
        SET 'execution.checkpointing.tolerable-failed-checkpoints' = '1000000';
        CREATE TABLE t (n INT) WITH ({with_options(options)});
        CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
        CREATE TABLE b (n INT) WITH ('connector' = 'blackhole');
        {script};""",
    )
    assert done.returncode == 1, done.stderr
    assert "hint: check 's3.access-key' and 's3.secret-key'" in done.stderr
    assert "restart" not in done.stderr
    assert "very secret" not in done.stderr
