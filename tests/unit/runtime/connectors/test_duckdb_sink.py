"""The sink of connector `duckdb`: nothing before the commit, all of it once after it, and nothing after an abort."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from changelog_harness import changelogs
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Row, batch, rows_of

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.duckdb import commit as committing
from sqlstream.runtime.connectors.staged_rows import JOURNAL
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import AbortsCommittables, ConnectorContext

SCHEMA = Schema.of(
    ("k", sql.BIGINT), ("name", sql.STRING), ("price", sql.decimal(10, 2)), ("at", sql.timestamp(3))
)
FILES = LocalFiles()
HOLDER = (
    "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.readline()"
)


def spec(path: Path, primary_key: tuple[int, ...] = (), schema: Schema = SCHEMA, **options: str) -> SinkSpec:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return SinkSpec("out", "duckdb", {"path": str(path), **named}, schema, primary_key)


def context(subtask: int = 0) -> ConnectorContext:
    return ConnectorContext("job", "vertex", subtask, 2, 0, 100, {}, lambda: 0, lambda name, n: None, FILES)


def written(
    sink: SinkSpec,
    batches: list[list[Row]],
    mode: ChangelogMode = ChangelogMode.INSERT_ONLY,
    subtask: int = 0,
) -> list[Committable]:
    """The committables of one writer."""
    writer = connector("duckdb").sink(sink, mode, context(subtask))
    for rows in batches:
        writer.write(batch(sink.schema, rows, mode))
    return writer.prepare_commit(LAST_CHECKPOINT_ID)


def commit(sink: SinkSpec, committables: list[Committable]) -> None:
    connector("duckdb").commit(sink, LAST_CHECKPOINT_ID, committables, FILES)


def stored(path: Path, query: str = "SELECT k, name FROM out ORDER BY ALL") -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(query).fetchall()


def row(k: int, name: str | None, kind: str = "") -> Row:
    values = (k, name, None, 1_000 * k)
    return (kind, *values) if kind else values


def leftovers(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir() if p.name.startswith("."))


def test_rows_are_there_after_the_commit_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    first = written(sink, [[row(1, "a")], [row(2, None)]])
    second = written(sink, [[row(3, "c")]], subtask=1)
    assert not path.exists()
    commit(sink, [*second, *first])
    assert stored(path) == [(1, "a"), (2, None), (3, "c")]
    assert [r[1] for r in stored(path, "DESCRIBE out")] == ["BIGINT", "VARCHAR", "DECIMAL(10,2)", "TIMESTAMP"]
    assert leftovers(tmp_path) == []


def test_a_commit_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    committables = written(sink, [[row(1, "a")]])
    kept = Path(committables[0].content["path"]).read_bytes()
    commit(sink, committables)
    # A process that dies between the commit and the removal of the rows leaves them.
    Path(committables[0].content["path"]).parent.mkdir()
    Path(committables[0].content["path"]).write_bytes(kept)
    commit(sink, committables)
    assert stored(path) == [(1, "a")]
    assert leftovers(tmp_path) == []


def test_rows_are_added_to_a_table_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    for name in ("a", "b"):
        sink = spec(path)
        commit(sink, written(sink, [[row(1, name)]]))
    assert stored(path) == [(1, "a"), (1, "b")]


def test_a_job_without_rows_makes_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.duckdb"
    sink = spec(path, table_name="s.out")
    commit(sink, written(sink, []))
    assert stored(path, "SELECT count(*) FROM s.out") == [(0,)]


def test_an_abort_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink, made = spec(path), connector("duckdb")
    finished = written(sink, [[row(1, "a")]])
    broken = made.sink(sink, ChangelogMode.INSERT_ONLY, context(1))
    broken.write(batch(SCHEMA, [row(2, "b")]))
    lost = made.sink(sink, ChangelogMode.INSERT_ONLY, context(1))
    lost.write(batch(SCHEMA, [row(3, "c")]))
    broken.abort()
    assert isinstance(made, AbortsCommittables)
    made.abort(sink, "job", finished, FILES)
    assert leftovers(tmp_path) == []
    assert not path.exists()


def test_the_last_row_of_a_primary_key_stays(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path, (0,))
    commit(sink, written(sink, [[row(1, "a"), row(2, "b"), row(1, "c")]]))
    commit(sink, written(sink, [[row(2, "d"), row(3, "e")]]))
    assert stored(path) == [(1, "c"), (2, "d"), (3, "e")]


ALL_TYPES: list[tuple[sql.LogicalType, list[Any]]] = [
    (sql.BOOLEAN, [True, False]),
    (sql.TINYINT, [-128, 127]),
    (sql.SMALLINT, [-32768, 32767]),
    (sql.INT, [-(2**31), 2**31 - 1]),
    (sql.BIGINT, [-(2**63), 2**63 - 1]),
    (sql.FLOAT, [1.5, -0.25]),
    (sql.DOUBLE, [1e300, -1e-300]),
    (sql.decimal(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")]),
    (sql.STRING, ["", "a'b\"c\nzoë"]),
    (sql.char(3), ["abc", "d  "]),
    (sql.BYTES, [b"", b"\x00\xff"]),
    (sql.DATE, [-1, 20_000]),
    (sql.time(3), [0, 86_399_999]),
    (sql.timestamp(3), [-1, 1_700_000_000_123]),
    (sql.timestamp(6), [-1, 1_700_000_000_123_456]),
    (sql.timestamp(9), [-1, 1_700_000_000_123_456_789]),
    (sql.timestamp_ltz(3), [-1, 1_700_000_000_123]),
]


def test_values_of_every_type_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    schema = Schema.of(*[(f"c{i}", t) for i, (t, _) in enumerate(ALL_TYPES)])
    rows: list[Row] = [tuple(values[i] for _, values in ALL_TYPES) for i in (0, 1)]
    rows.append((None,) * len(ALL_TYPES))
    sink, made = spec(path, schema=schema), connector("duckdb")
    commit(sink, written(sink, [rows]))
    reader = made.source(SourceSpec("out", "duckdb", sink.options, schema, schema.names), context(), None)
    read = reader.poll()
    assert isinstance(read, pa.RecordBatch)
    assert read.schema.types == to_arrow_schema(schema).types
    assert rows_of(read) == rows
    reader.close()


KEYED = Schema.of(("k", sql.BIGINT), ("v", sql.STRING))


@given(
    st.lists(
        changelogs(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None])), max_size=12), max_size=3
    ),
    st.booleans(),
)
@settings(max_examples=6, deadline=None)
def test_a_table_with_a_primary_key_holds_what_the_changes_leave(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[Row]], has_constraint: bool
) -> None:
    path = tmp_path_factory.mktemp("upsert") / "out.duckdb"
    if not has_constraint:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE out (k BIGINT, v VARCHAR)")
    sink, expected = spec(path, (0,), KEYED), dict[int, Any]()
    for log in logs:
        for kind, k, v in log:
            expected.pop(k, None)
            if kind in ("+I", "+U"):
                expected[k] = v
        commit(sink, written(sink, [log[:5], log[5:]], ChangelogMode.RETRACT))
    if logs:
        assert dict(stored(path, "SELECT k, v FROM out")) == expected


def test_a_table_that_does_not_fit_is_refused_before_the_job_runs(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE out (k INTEGER, name VARCHAR)")
    with pytest.raises(
        UserError, match='column "k" of table "out" has DuckDB\'s type INTEGER, and rows with BIGINT'
    ):
        written(spec(path), [])
    with pytest.raises(UserError, match='table "out" has no column "extra"'):
        written(spec(path, schema=Schema.of(("k", sql.INT), ("extra", sql.INT))), [])
    assert leftovers(tmp_path) == []


def test_only_duckdb_files_are_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only DuckDB files are written"):
        written(spec(tmp_path / "a.csv"), [])
    made = connector("duckdb")
    assert isinstance(made, AbortsCommittables)
    made.abort(spec(tmp_path / "a.csv"), "job", [], FILES)


def test_a_commit_waits_for_another_process_that_has_the_file_open(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    commit(sink, written(sink, [[row(1, "a")]]))
    committables = written(sink, [[row(2, "b")]])
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(committing, "_TRIES", 2)
            with pytest.raises(ExternalError, match="is locked by another process"):
                commit(sink, committables)
        holder.communicate("\n", timeout=60)
    commit(sink, committables)
    assert stored(path) == [(1, "a"), (2, "b")]


def test_rows_that_have_vanished_fail_the_commit_and_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    commit(sink, written(sink, [[row(1, "a")]]))
    lost, kept = written(sink, [[row(2, "b")]]), written(sink, [[row(3, "c")]], subtask=1)
    Path(lost[0].content["path"]).unlink()
    with pytest.raises(ExternalError, match="have vanished"):
        commit(sink, [*lost, *kept])
    assert stored(path) == [(1, "a")]


def test_a_file_that_is_locked_when_the_job_begins_may_be_free_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    commit(sink, written(sink, [[row(1, "a")]]))
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        committables = written(sink, [[row(2, "b")]])
        holder.communicate("\n", timeout=60)
    commit(sink, committables)
    assert stored(path) == [(1, "a"), (2, "b")]


def test_a_file_that_is_no_database_is_refused_before_the_job_runs(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    path.write_bytes(b"x" * 10_000)
    with pytest.raises(ExternalError, match="is no duckdb database"):
        written(spec(path), [])
    assert leftovers(tmp_path) == []


def test_rows_are_applied_in_the_order_of_their_subtasks(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path, (0,))
    later, earlier = written(sink, [[row(1, "later")]], subtask=1), written(sink, [[row(1, "earlier")]])
    commit(sink, [*later, *earlier])
    assert stored(path) == [(1, "later")]
    commit(sink, [])
    assert stored(path) == [(1, "later")]


def test_commits_are_remembered_for_a_year(tmp_path: Path) -> None:
    path = tmp_path / "out.duckdb"
    sink = spec(path)
    commit(sink, written(sink, [[row(1, "a")]]))
    for days in (364, 366):
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                f"INSERT INTO {JOURNAL} VALUES ('of {days} days', now() - INTERVAL {days} DAY)"
            )
    commit(sink, written(sink, [[row(2, "b")]]))
    kept = [w for (w,) in stored(path, f"SELECT writer FROM {JOURNAL}")]
    assert "of 364 days" in kept
    assert "of 366 days" not in kept
    assert len(kept) == 3


@pytest.mark.parametrize("stored_type", ["", "FLOAT[2]", "FLOAT[]"])
def test_arrays_are_written_and_read_again_by_scan_and_by_key(tmp_path: Path, stored_type: str) -> None:
    path = tmp_path / "shop.duckdb"
    if stored_type:
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                f"CREATE TABLE out (k BIGINT PRIMARY KEY, v {stored_type}, tags VARCHAR[], n DECIMAL(5, 2)[])"
            )
    schema = Schema.of(
        ("k", sql.BIGINT),
        ("v", sql.array(sql.FLOAT)),
        ("tags", sql.array(sql.STRING)),
        ("n", sql.array(sql.decimal(5, 2))),
    )
    sink = spec(path, (0,), schema)
    rows: list[Row] = [
        (1, [0.5, None], ["a", None], [Decimal("1.25")]),
        (2, None, [], None),
        (3, [1.0, 2.0], None, [None]),
    ]
    commit(sink, written(sink, [rows, [(3, [3.0, 4.0], ["c"], [])]]))
    rows[2] = (3, [3.0, 4.0], ["c"], [])
    source = SourceSpec("out", "duckdb", {"path": str(path)}, schema, schema.names)
    looked_up = connector("duckdb").lookup_source(source, ("k",), context())
    keys = pa.RecordBatch.from_pydict({"k": pa.array([1, 2, 3], pa.int64())})
    assert sorted(rows_of(looked_up.lookup(keys))) == rows
    reader = connector("duckdb").source(source, context(), None)
    assert sorted(rows_of(reader.poll())) == rows
    reader.close()


def test_an_array_is_no_primary_key(tmp_path: Path) -> None:
    sink = spec(tmp_path / "shop.duckdb", (0,), Schema.of(("v", sql.array(sql.INT)), ("n", sql.INT)))
    with pytest.raises(UserError, match="primary key") as caught:
        written(sink, [[([1], 2)]])
    assert caught.value.code == "SS4006"
