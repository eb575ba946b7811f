"""Whatever stands in the journals of a table, the next job runs or says which file to look at, and touches no file that is
not its own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.connectors.filesystem import Filesystem
from runtime.host.files import LocalFiles
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, UserError
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.connector import ConnectorContext

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


def context() -> ConnectorContext:
    return ConnectorContext("job", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, LocalFiles())


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
            (table.path / f".commit-{number}").write_bytes(text)
        table.read()
        assert table.others() == others
        assert len(list(table.path.glob(".commit-*"))) == len(journals)
        table.insert("new")
        assert not list(table.path.glob(".commit-*"))
        assert table.others() == others
        assert "new" in [row["p"] for row in table.read()]


def test_a_journal_of_any_size_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.connectors.commit_journal.JOURNAL_BYTES_MAX", 1 << 20)
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
