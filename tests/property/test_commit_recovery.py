"""Whatever stands in the journals of a table, the next job runs or says which file to look at, and touches no file that is
not its own; whatever becomes of them while a job is dead, no row of it is there twice, and none that was committed is lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext
from sqlstream.testing.mortal_files import Died, MortalFiles, Process

CONNECTOR = Filesystem()
SCHEMA = Schema.of(("v", sql.INT), ("p", sql.STRING))
ID = "0123456789ab"
STAGING = f".staging-job-{ID}"

HIDDEN = st.sampled_from([
    f"{STAGING}/part-{ID}-0-0.csv", f"{STAGING}/part-{ID}-0-1.csv", f"{STAGING}/../keep.csv", STAGING, "keep.csv", "",
    ".", "..", "../outside/a.csv", "/", f"{STAGING}/", f"{STAGING}//part-{ID}-0-0.csv", "p=1/part-old.csv", "x\0y",
])  # fmt: skip
FINAL = st.sampled_from([
    f"p=1/part-{ID}-0-0.csv", f"part-{ID}-0-0.csv", f"p={'x' * 300}/part-{ID}-0-0.csv", "p=1", "p=1/part-old.csv",
    "keep.csv", "../outside/a.csv", "../outside", f"p=/../../outside/part-{ID}-0-0.csv", f"keep.csv/part-{ID}-0-0.csv",
    f"p=link/part-{ID}-0-0.csv", f"p=link/part-{ID}-0-1.csv", "p=link/a.csv", "", ".", "..", "/", "a\0b", "p=1/\ud800",
    f"p=directory/part-{ID}-0-0.csv",
])  # fmt: skip
MOVES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"hidden": HIDDEN, "final": FINAL}),
        st.fixed_dictionaries({"hidden": st.just(f"{STAGING}/part-{ID}-0-0.csv"), "final": FINAL}),
        st.fixed_dictionaries({"hidden": st.integers(), "final": st.none()}),
        st.sampled_from([{}, [], 1, None, "p=1", {"hidden": "x"}]),
    ),
    max_size=4,
).map(lambda moves: json.dumps(moves).encode())
TRUNCATED = st.builds(lambda text, end: text[: end % (len(text) + 1)], MOVES, st.integers(0, 400))
JOURNALS = st.lists(
    st.one_of(MOVES, TRUNCATED, st.binary(max_size=30), st.sampled_from([b"", b"[" * 9_000, b"{}", b"[]"])),
    min_size=1,
    max_size=3,
)


class Table:
    """A table with files of its own, of a commit that broke off, and of others beside it."""

    def __init__(self, directory: str) -> None:
        self.path = Path(directory, "t")
        self.outside = Path(directory, "outside")
        for name in ("keep.csv", "p=1/part-old.csv"):
            self._write(self.path / name)
        self._write(self.outside / "a.csv")
        self._write(self.outside / f"part-{ID}-0-0.csv.mine")
        (self.path / "p=link").symlink_to(self.outside, target_is_directory=True)
        for name in (f"{STAGING}/part-{ID}-0-1.csv", f"p=1/part-{ID}-0-0.csv"):
            self._write(self.path / name)
        self._write(self.path / "p=directory" / f"part-{ID}-0-0.csv" / "x.csv")

    def _write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("7,a\n" if path.parent == self.path else "7\n")

    def others(self) -> dict[str, str]:
        """What is not of the commit that broke off."""
        places = [self.path / "keep.csv", self.path / "p=1/part-old.csv", self.path / "p=link"]
        places += [self.path / "p=directory" / f"part-{ID}-0-0.csv" / "x.csv"]
        places += sorted(self.outside.rglob("*"))
        return {str(place): "" if place.is_dir() else place.read_text() for place in places}

    @property
    def options(self) -> dict[str, str]:
        return {"connector": "filesystem", "path": str(self.path), "format": "csv"}

    def insert(self, *values: str) -> None:
        spec = SinkSpec("t", "filesystem", self.options, SCHEMA, partition_keys=(1,))
        sink = CONNECTOR.sink(spec, ChangelogMode.INSERT_ONLY, context())
        columns = {"v": [1] * len(values), "p": list(values)}
        try:
            sink.write(pa.RecordBatch.from_pydict(columns, schema=to_arrow_schema(SCHEMA)))
            committables = sink.prepare_commit(LAST_CHECKPOINT_ID)
        except Exception:
            sink.abort()
            raise
        CONNECTOR.commit(spec, LAST_CHECKPOINT_ID, committables, LocalFiles())

    def read(self) -> list[dict[str, Any]]:
        spec = SourceSpec("t", "filesystem", self.options, SCHEMA, SCHEMA.names)
        reader = CONNECTOR.source(spec, context(), None)
        found: list[dict[str, Any]] = []
        try:
            while isinstance(batch := reader.poll(), pa.RecordBatch):
                found += batch.to_pylist()
        finally:
            reader.close()
        return found


def context(job_id: str = "job") -> ConnectorContext:
    return ConnectorContext(job_id, "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, LocalFiles())


def refusal_of(attempt: Callable[[], object]) -> UserError | ExternalError | None:
    try:
        attempt()
    except (UserError, ExternalError) as error:
        return error
    return None


@given(JOURNALS)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_journal_is_undone_or_set_aside_and_nothing_else_is_touched(journals: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Table(directory)
        others = table.others()
        for number, text in enumerate(journals):
            (table.path / f".commit-job-{number + 1}-{ID}").write_bytes(text)
        table.read()
        assert table.others() == others
        assert len(list(table.path.glob(".commit-*"))) == len(journals)
        table.insert("new")
        assert not list(table.path.glob(".commit-*"))
        assert table.others() == others
        assert "new" in [row["p"] for row in table.read()]


def test_a_journal_of_any_size_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.files.table_log.MANIFEST_BYTES_MAX", 1 << 20)
    table = Table(str(tmp_path))
    with open(table.path / ".commit-x", "wb") as giant:
        giant.truncate(1 << 40)
    table.insert("a")
    assert [path.name for path in table.path.glob(".unusable-*")] == [".unusable-commit-x"]
    assert "a" in [row["p"] for row in table.read()]


@pytest.mark.parametrize("kind", ["directory", "pipe", "link to nothing"])
def test_a_journal_that_is_no_file_is_passed_over(tmp_path: Path, kind: str) -> None:
    table = Table(str(tmp_path))
    journal = table.path / ".commit-x"
    if kind == "directory":
        journal.mkdir()
    elif kind == "pipe":
        os.mkfifo(journal)
    else:
        journal.symlink_to(tmp_path / "nothing")
        table.insert("a")
        return
    table.insert("a")
    assert "a" in [row["p"] for row in table.read()]


PIECES = ["x", "é", "\U0001f600", "/", "\0", "..", "."]
TEXTS = st.builds(lambda piece, times: piece * times, st.sampled_from(PIECES), st.integers(0, 300))


@given(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_partition_value_is_read_back_or_refused_before_the_commit(values: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Table(directory)
        before = sorted(table.path.rglob("*"))
        refusal = refusal_of(lambda: table.insert(*values))
        if refusal is not None:
            assert refusal.code == "SS5019"
            assert '"p"' in refusal.message
            assert sorted(table.path.rglob("*")) == before
            table.insert("next")
            values = ["next"]
        found = [row["p"] for row in table.read() if row["v"] == 1]
        assert sorted(map(str, found)) == sorted(str(value or None) for value in values)


Damage = tuple[int, str, bytes]
DAMAGES: st.SearchStrategy[list[Damage]] = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["remove", "truncate", "overwrite", "append", "copy"]),
        st.one_of(st.binary(max_size=20), st.sampled_from([b"[]", b"{}", b'{"a":1}', b"null", b'{"waiting":{}}'])),
    ),
    max_size=4,
)  # fmt: skip


def damage(places: list[Path], damages: list[Damage]) -> None:
    """What people, disks and copies from elsewhere may do to files while no process is there."""
    for number, kind, data in damages:
        place = places[number % len(places)]
        if not place.exists():
            continue
        match kind:
            case "remove":
                place.unlink()
            case "truncate":
                os.truncate(place, place.stat().st_size * len(data) // 20)
            case "overwrite":
                place.write_bytes(data)
            case "append":
                place.write_bytes(place.read_bytes() + data)
            case "copy":
                # Of a hidden directory, such as that of a writer, or within it.
                shutil.copy(place, place.with_name(f"{place.name}~"))


class Sink:
    """A table into which a job has written one row for each of its checkpoints 1 to 3, of which the first is committed."""

    def __init__(self, spec: SinkSpec) -> None:
        self.spec = spec
        self.sink = connector(spec.connector)
        writer = self.writer("a" * 32)
        self.prepared: list[list[Committable]] = []
        for n in (1, 2, 3):
            batch = {"v": [n], "p": [f"p{n}"]}
            writer.write(pa.RecordBatch.from_pydict(batch, schema=to_arrow_schema(SCHEMA)))
            self.prepared.append(writer.prepare_commit(n))
        self.commit(1)

    def writer(self, job_id: str) -> Any:
        return self.sink.sink(self.spec, ChangelogMode.INSERT_ONLY, context(job_id))

    def commit(self, checkpoint_id: int, files: LocalFiles | None = None) -> None:
        committables = self.prepared[checkpoint_id - 1]
        self.sink.commit(self.spec, checkpoint_id, committables, files or LocalFiles())

    def commit_and_die(self, death: int) -> None:
        with contextlib.suppress(Died):
            self.commit(2, MortalFiles(Process(death)))

    def go_on(self) -> UserError | ExternalError | None:
        """As the job that goes on from its checkpoint 3, which repeats the commits; then another job writes a row 4."""
        refusal = refusal_of(lambda: [self.commit(2), self.commit(3)])
        refusal = refusal or refusal_of(lambda: [self.commit(2), self.commit(3)])
        other = self.writer("b" * 32)
        batch = {"v": [4], "p": ["p4"]}
        other.write(pa.RecordBatch.from_pydict(batch, schema=to_arrow_schema(SCHEMA)))
        self.sink.commit(
            self.spec, LAST_CHECKPOINT_ID, other.prepare_commit(LAST_CHECKPOINT_ID), LocalFiles()
        )
        return refusal

    def check(self, refusal: UserError | ExternalError | None, found: list[int]) -> None:
        assert sorted(found) == sorted(set(found))
        assert {1, 4} <= set(found)
        if refusal is None:
            assert sorted(found) == [1, 2, 3, 4]


@given(st.integers(0, 40), DAMAGES, st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_table_of_files_whose_hidden_files_are_damaged_shows_no_row_twice(
    death: int, damages: list[Damage], is_kept: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t")
        options = {
            "connector": "filesystem",
            "path": str(path),
            "format": "json",
            "sink.partition-commit.policy.kind": "success-file",
            "sink.partition-commit.delay": "1 h",
        }
        sink = Sink(SinkSpec("t", "filesystem", options, SCHEMA, partition_keys=(1,)))
        if is_kept:
            (path / f".staging-{'a' * 32}-claim").write_bytes(os.fsencode(directory))
        sink.commit_and_die(death)
        hidden = [p for p in sorted(path.rglob("*")) if p.is_file() and "/." in str(p.relative_to(directory))]
        # What is in a file of rows is not looked at: they are in the formats of others.
        rows = [p for p in hidden if p.name.startswith("part-")]
        damage(hidden, [(n, "remove" if hidden[n % len(hidden)] in rows else k, d) for n, k, d in damages])
        refusal = sink.go_on()
        source = SourceSpec("t", "filesystem", options, SCHEMA, SCHEMA.names)
        reader, found = CONNECTOR.source(source, context(), None), list[int]()
        while isinstance(batch := reader.poll(), pa.RecordBatch):
            found += batch.column(0).to_pylist()
        sink.check(refusal, found)


STRANGE_NOTES = st.lists(
    st.sampled_from(["{writer}/x", "{writer}/", "{writer}/1/2", "", "/9", "x"]), unique=True
)


@given(st.integers(0, 12), DAMAGES, STRANGE_NOTES)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_a_sqlite_table_whose_staged_rows_and_journal_are_damaged_shows_no_row_twice(
    death: int, damages: list[Damage], notes: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t.db")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE out (v INTEGER, p TEXT)")
        options = {"url": f"jdbc:sqlite:{path}", "table-name": "out"}
        sink = Sink(SinkSpec("out", "jdbc", options, SCHEMA))
        sink.commit_and_die(death)
        writer_id = sink.prepared[0][0].writer_id
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            made = [(note.format(writer=writer_id), "then") for note in notes]
            connection.executemany("INSERT INTO sqlstream_commits VALUES (?, ?)", made)
        if staged := sorted(p for p in Path(directory).rglob("rows-*") if p.is_file()):
            damage(staged, damages)
        refusal = sink.go_on()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            sink.check(refusal, [v for (v,) in connection.execute("SELECT v FROM out")])


@given(st.integers(0, 12), DAMAGES, STRANGE_NOTES)
@settings(max_examples=8, deadline=None, derandomize=True)
def test_a_duckdb_table_whose_staged_rows_and_journal_are_damaged_shows_no_row_twice(
    death: int, damages: list[Damage], notes: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "t.duckdb")
        sink = Sink(SinkSpec("out", "duckdb", {"path": str(path)}, SCHEMA))
        sink.commit_and_die(death)
        writer_id = sink.prepared[0][0].writer_id
        with duckdb.connect(str(path)) as connection:
            for note in notes:
                values = [note.format(writer=writer_id)]
                connection.execute("INSERT INTO sqlstream_commits VALUES (?, now())", values)
        if staged := sorted(p for p in Path(directory).rglob("rows-*") if p.is_file()):
            damage(staged, damages)
        refusal = sink.go_on()
        with duckdb.connect(str(path), read_only=True) as connection:
            sink.check(refusal, [v for (v,) in connection.execute("SELECT v FROM out").fetchall()])
