"""Whatever is completed before a process dies, wherever it dies, and however often a commit is repeated: a sink shows every row
once."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from commit_harness import ChangingJob, CheckpointedJob, DoubtfulDisk
from hypothesis import given, settings
from hypothesis import strategies as st
from object_store import renaming_store_in, store_in

from sqlstream import types as sql
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.files import filesystem
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files

LOCAL = LocalFiles()
SCHEMA = Schema.of(("v", sql.STRING), ("p", sql.INT))

Plan = list[tuple[int, bool, bool]]
PLANS: st.SearchStrategy[Plan] = st.lists(
    st.tuples(st.integers(0, 7), st.booleans(), st.booleans()), min_size=1, max_size=5
)


def read(options: dict[str, str], files: Files = LOCAL) -> list[int]:
    spec = SourceSpec("t", "filesystem", options, SCHEMA, ("v",))
    context = ConnectorContext("r", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, files)
    if files.status(options["path"]) is None:
        return []
    reader, found = connector("filesystem").source(spec, context, None), list[int]()
    try:
        while isinstance(batch := reader.poll(), pa.RecordBatch):
            found += map(int, batch.column(0).to_pylist())
    finally:
        reader.close()
    return found


JOINED = {"auto-compaction": "true", "compaction.file-size": "60 b"}
COMPACTED = {"changelog.mode": "compacted"}
MARKED = {"sink.partition-commit.policy.kind": "success-file"}


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "raw"])
@given(
    PLANS,
    st.lists(st.integers(0, 90), max_size=3),
    st.sampled_from([{}, JOINED, MARKED, JOINED | MARKED, COMPACTED]),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_files_have_every_row_once(format: str, plan: Plan, deaths: list[int], more: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t")
        options = {"connector": "filesystem", "path": str(path), "format": format, **more}
        spec = SinkSpec("t", "filesystem", options, SCHEMA, primary_key=(0, 1), partition_keys=(1,))
        rows = CheckpointedJob(spec, plan, deaths, lambda: read(options)).run()
        assert sorted(read(options)) == list(range(rows))
        # Whoever reads without our connector sees the same.
        assert not [*path.glob(".commit-*")]
        staged = [f for f in path.rglob("*") if f.is_file() and ".staging" in str(f)]
        assert staged == []
        partitions = {file.parent for file in path.glob("p=*/part-*")}
        marked = {file.parent for file in path.glob("p=*/_SUCCESS")}
        assert marked == (partitions if MARKED.keys() <= more.keys() else set())
        assert not [record for record in path.glob(".committed/*") if b'"waiting"' in record.read_bytes()]


@pytest.mark.parametrize("partition_keys", [(), (1,)])
@given(PLANS, st.lists(st.integers(0, 60), max_size=3))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_compacted_table_has_the_last_row_of_each_key_wherever_the_process_dies(
    partition_keys: tuple[int, ...], plan: Plan, deaths: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t")
        options = {"connector": "filesystem", "path": str(path), "format": "json", **COMPACTED}
        spec = SinkSpec("t", "filesystem", options, SCHEMA, primary_key=(1,), partition_keys=partition_keys)
        changes = ChangingJob(spec, plan, deaths, lambda: read(options)).run()
        assert sorted(read(options)) == ChangingJob.rows_behind(changes)
        left = [f for f in path.rglob("*") if f.is_file() and not f.name.startswith("part-")]
        assert [f for f in left if ".committed" not in str(f)] == []


@given(PLANS, st.lists(st.integers(0, 120), max_size=6), st.sampled_from([{}, JOINED, MARKED, COMPACTED]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_files_of_a_server_that_loses_answers_have_every_row_once(
    plan: Plan, failing: list[int], more: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t")
        options = {"connector": "filesystem", "path": str(path), "format": "csv", **more}
        spec = SinkSpec("t", "filesystem", options, SCHEMA, primary_key=(0, 1), partition_keys=(1,))
        rows = CheckpointedJob(spec, plan, [], lambda: read(options)).run_on(DoubtfulDisk(failing))
        assert sorted(read(options)) == list(range(rows))
        assert not [*path.glob(".commit-*")]


def stored_in_duckdb(path: Path) -> list[int]:
    if not path.exists():
        return []
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'out'"
        ).fetchall()
        return [int(v) for (v,) in connection.execute("SELECT v FROM out").fetchall()] if tables[0][0] else []


def stored_in_sqlite(path: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [int(v) for (v,) in connection.execute("SELECT v FROM out")]


PLAN: Plan = [(5, True, True), (4, False, True), (3, True, False), (6, True, True), (2, True, True)]
"""A checkpoint that is not completed, and two commits at once."""


@pytest.mark.parametrize("death", range(0, 40, 5))
def test_a_duckdb_table_has_every_row_once_wherever_the_process_dies(tmp_path: Path, death: int) -> None:
    path = tmp_path / "t.duckdb"
    primary_key = (0,) if death % 2 else ()
    spec = SinkSpec("out", "duckdb", {"path": str(path)}, SCHEMA, primary_key)
    job = CheckpointedJob(spec, PLAN, [death, death + 5], lambda: stored_in_duckdb(path))
    rows = job.run()
    assert job.died > 0
    assert sorted(stored_in_duckdb(path)) == list(range(rows))
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["t.duckdb"]


@pytest.mark.parametrize("death", range(0, 52, 3))
def test_a_sqlite_table_has_every_row_once_wherever_the_process_dies(tmp_path: Path, death: int) -> None:
    path = tmp_path / "t.db"
    primary_key = (0,) if death % 2 else ()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE out (v TEXT{' PRIMARY KEY' * len(primary_key)}, p INTEGER)")
    options = {"url": f"jdbc:sqlite:{path}", "table-name": "out"}
    spec = SinkSpec("out", "jdbc", options, SCHEMA, primary_key)
    job = CheckpointedJob(spec, PLAN, [death, death // 2], lambda: stored_in_sqlite(path))
    rows = job.run()
    assert job.died > 0
    assert sorted(stored_in_sqlite(path)) == list(range(rows))
    assert [f.name for f in tmp_path.rglob("*") if f.is_file()] == ["t.db"]


@pytest.mark.parametrize(("root", "store_in"), [("s3://b", store_in), ("sftp://b", renaming_store_in)])
@pytest.mark.parametrize("death", range(0, 125, 5))
def test_files_elsewhere_have_every_row_once_wherever_the_process_dies(
    tmp_path: Path,
    death: int,
    root: str,
    store_in: Callable[..., StoreFiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filesystem, "files_of", lambda options, files: files)
    options = {"connector": "filesystem", "path": f"{root}/t", "format": "csv"}
    spec = SinkSpec("t", "filesystem", options, SCHEMA, primary_key=(0, 1), partition_keys=(1,))
    store = store_in(str(tmp_path))
    job = CheckpointedJob(
        *(spec, PLAN, [death, death // 2], lambda: read(options, store)),
        files=lambda process: store_in(str(tmp_path), process),
    )
    rows = job.run()
    assert job.died > 0
    assert sorted(read(options, store)) == list(range(rows))
    files = [str(f) for f in tmp_path.rglob("*") if f.is_file()]
    assert [f for f in files if ".commit-" in f or ".staging-" in f] == []
