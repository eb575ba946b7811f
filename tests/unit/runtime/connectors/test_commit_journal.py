"""A commit of many files, killed or failing at each of its steps: a table shows all files of a job or none."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.jobmanager.events import SinkCommit
from sqlstream.runtime.sink_committer import ConnectorCommitter
from sqlstream.schema import Schema
from sqlstream.specs import ChangingSinkSpec, SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext

ROOT = Path(__file__).resolve().parents[4]
CONNECTOR = Filesystem()
SCHEMA = Schema.of(("v", sql.INT), ("p", sql.INT))
PARTITIONS = 5

# Commits in a process that dies within one of the calls that a commit makes of the file system.
COMMIT_AND_DIE = """
import os, signal, sys
import msgspec
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable

class Fatal(LocalFiles):
    left = int(sys.argv[1])

    def _count(self):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def publish(self, staged, final):
        self._count()
        super().publish(staged, final)
        self._count()

    def remove(self, path):
        self._count()
        super().remove(path)
        self._count()

path, committables = msgspec.json.decode(sys.stdin.read(), type=tuple[str, list[Committable]])
spec = SinkSpec("t", "filesystem", {"path": path, "format": "csv"}, Schema(()))
Filesystem().commit(spec, LAST_CHECKPOINT_ID, committables, Fatal())
"""
STEPS = 2 * (1 + PARTITIONS + 1)
"""Before and after each call: the journal's rename, those of the files, the removal of the journal."""


class Broken(LocalFiles):
    """A disk that fails from the n-th file on that is moved into place."""

    def __init__(self, moves: int) -> None:
        self._moves = moves

    def publish(self, staged: str, final: str) -> None:
        if "part-" in final:
            self._moves -= 1
        if self._moves < 0:
            raise file_error("rename", staged, OSError(errno.EIO, ""))
        super().publish(staged, final)


class Refusing(LocalFiles):
    """A disk that removes no file of rows in the second partition."""

    def remove(self, path: str) -> None:
        if "/p=1/part-" in path:
            raise file_error("remove", path, OSError(errno.EIO, ""))
        super().remove(path)


def context(job_id: str) -> ConnectorContext:
    return ConnectorContext(job_id, "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, LocalFiles())


def options(path: Path) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(path), "format": "csv"}


def spec(path: Path) -> SinkSpec:
    return SinkSpec("t", "filesystem", options(path), SCHEMA, partition_keys=(1,))


def compacting(path: Path) -> SinkSpec:
    """An INSERT into a table that holds a row a partition."""
    more = {**options(path), "changelog.mode": "compacted"}
    return SinkSpec("t", "filesystem", more, SCHEMA, primary_key=(1,), partition_keys=(1,))


def overwriting(path: Path) -> SinkSpec:
    return ChangingSinkSpec("t", "filesystem", options(path), SCHEMA, partition_keys=(1,))


def written(path: Path, job_id: str, value: int) -> list[Committable]:
    """A row a partition, not yet committed."""
    return prepared(spec(path), job_id, value, LAST_CHECKPOINT_ID)


def prepared(sink_spec: SinkSpec, job_id: str, value: int, checkpoint_id: int) -> list[Committable]:
    sink = CONNECTOR.sink(sink_spec, ChangelogMode.INSERT_ONLY, context(job_id))
    columns = {"v": [value] * PARTITIONS, "p": list(range(PARTITIONS))}
    sink.write(pa.RecordBatch.from_pydict(columns, schema=to_arrow_schema(SCHEMA)))
    return sink.prepare_commit(checkpoint_id)


def values(path: Path) -> list[int]:
    source = SourceSpec("t", "filesystem", options(path), SCHEMA, SCHEMA.names)
    reader = CONNECTOR.source(source, context("reader"), None)
    found: list[int] = []
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        found += batch.column(0).to_pylist()
    return sorted(found)


def commit_and_die(table: Path, committables: list[Committable], step: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMIT_AND_DIE, str(step)],
        input=msgspec.json.encode((str(table), committables)).decode(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def is_clean(path: Path) -> bool:
    return not list(path.glob(".*"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    CONNECTOR.commit(spec(path), LAST_CHECKPOINT_ID, written(path, "before", 1), LocalFiles())
    return path


@pytest.mark.parametrize("step", range(0, STEPS, 2))
def test_a_process_killed_while_it_commits_leaves_all_or_nothing(table: Path, step: int) -> None:
    committables = written(table, "killed", 2)
    commit_and_die(table, committables, step)
    assert values(table) == [1] * PARTITIONS
    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, written(table, "after", 3), LocalFiles())
    assert values(table) == [1] * PARTITIONS + [3] * PARTITIONS
    # Before the journal stands, nobody can know that the hidden files are orphans.
    assert is_clean(table) or step == 0


@pytest.mark.parametrize("step", [0, 2, 7, STEPS - 2, STEPS - 1])
def test_a_commit_that_was_killed_is_completed_when_it_is_repeated(table: Path, step: int) -> None:
    committables = written(table, "killed", 2)
    commit_and_die(table, committables, step)
    committer = ConnectorCommitter(LocalFiles())
    commits = (SinkCommit("v", 0, spec(table), tuple(committables)),)
    for _ in range(2):
        committer.commit("killed", LAST_CHECKPOINT_ID, commits)
        assert values(table) == [1] * PARTITIONS + [2] * PARTITIONS
        assert is_clean(table)
    # Whoever reads without our connector sees the same.
    assert sum(1 for f in table.rglob("part-*") if ".staging" not in str(f)) == 2 * PARTITIONS


@pytest.mark.parametrize("step", [0, 2, 7, STEPS - 2])
def test_a_commit_that_was_killed_can_be_aborted(table: Path, step: int) -> None:
    committables = written(table, "killed", 2)
    commit_and_die(table, committables, step)
    CONNECTOR.abort(spec(table), "killed", [], LocalFiles())
    assert values(table) == [1] * PARTITIONS
    assert is_clean(table)
    assert sum(1 for _ in table.rglob("part-*")) == PARTITIONS


def test_a_broken_commit_of_a_job_that_a_server_keeps_is_left_to_that_server(
    table: Path, tmp_path: Path
) -> None:
    committables = written(table, "killed", 2)
    kept = tmp_path / "kept.job"
    kept.touch()
    claim = table / ".staging-killed-claim"
    claim.write_bytes(os.fsencode(kept))
    commit_and_die(table, committables, 7)
    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, written(table, "after", 3), LocalFiles())
    assert values(table) == [1] * PARTITIONS + [3] * PARTITIONS
    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, committables, LocalFiles())
    assert values(table) == sorted([1, 2, 3] * PARTITIONS)
    assert list(table.glob(".*")) == [claim]


def test_a_broken_commit_of_a_job_that_nobody_keeps_is_undone_by_the_next_writer(
    table: Path, tmp_path: Path
) -> None:
    committables = written(table, "killed", 2)
    (table / ".staging-killed-claim").write_bytes(os.fsencode(tmp_path / "removed.job"))
    commit_and_die(table, committables, 7)
    written(table, "after", 3)
    assert not list(table.glob(".commit-*"))
    assert sum(1 for f in table.rglob("part-*") if ".staging" not in str(f)) == PARTITIONS


def test_a_broken_commit_whose_claim_is_removed_meanwhile_is_undone_with_the_last_commit(table: Path) -> None:
    commit_and_die(table, written(table, "killed", 2), 7)
    claim = table / ".staging-killed-claim"
    claim.touch()
    lock = LocalFiles().lock(str(claim))
    assert lock is not None
    after = written(table, "after", 3)
    assert len(list(table.glob(".commit-*"))) == 1
    claim.unlink()
    lock.close()
    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, after, LocalFiles())
    assert is_clean(table)
    assert sum(1 for f in table.rglob("part-*")) == 2 * PARTITIONS


def test_a_process_killed_after_the_journal_is_gone_has_committed(table: Path) -> None:
    committables = written(table, "killed", 2)
    commit_and_die(table, committables, STEPS - 1)
    written(table, "after", 3)
    assert values(table) == [1] * PARTITIONS + [2] * PARTITIONS


@pytest.mark.parametrize("moves", range(PARTITIONS))
def test_a_disk_that_fails_while_files_are_moved_leaves_nothing_visible(table: Path, moves: int) -> None:
    committables = written(table, "failed", 2)
    with pytest.raises(ExternalError, match="could not rename"):
        CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, committables, Broken(moves))
    assert values(table) == [1] * PARTITIONS
    CONNECTOR.abort(spec(table), "failed", committables, LocalFiles())
    assert is_clean(table)
    assert sum(1 for _ in table.rglob("part-*")) == PARTITIONS


def test_a_commit_that_failed_is_completed_when_it_is_repeated(table: Path) -> None:
    committables = written(table, "failed", 2)
    with pytest.raises(ExternalError, match="could not rename"):
        CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, committables, Broken(2))
    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, committables, LocalFiles())
    assert values(table) == [1] * PARTITIONS + [2] * PARTITIONS
    assert is_clean(table)


def test_an_abort_takes_back_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    committables = written(path, "job", 2)
    CONNECTOR.commit(spec(path), LAST_CHECKPOINT_ID, committables, LocalFiles())
    CONNECTOR.abort(spec(path), "job", committables, LocalFiles())
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("spec_of", [compacting, overwriting])
def test_an_abort_completes_what_has_replaced_other_files_and_removes_what_attempts_before_have_staged(
    table: Path, spec_of: Callable[[Path], SinkSpec]
) -> None:
    sink_spec = spec_of(table)
    discarded = prepared(sink_spec, "job", 3, 1)
    committables = prepared(sink_spec, "job", 2, 2)
    with pytest.raises(ExternalError, match="could not remove"):
        CONNECTOR.commit(sink_spec, 2, committables, Refusing())
    assert values(table) == [2] * PARTITIONS
    with pytest.raises(ExternalError, match="could not remove"):
        CONNECTOR.abort(sink_spec, "job", [*committables, *discarded], Refusing())
    assert values(table) == [2] * PARTITIONS
    assert [p.name for p in table.glob(".staging-*")] == []
    CONNECTOR.abort(sink_spec, "job", [*committables, *discarded], LocalFiles())
    assert values(table) == [2] * PARTITIONS
    assert [p.name for p in table.glob(".*")] == [".committed"]
    assert sum(1 for _ in table.rglob("part-*")) == PARTITIONS


def test_a_commit_under_way_is_hidden_and_left_alone(table: Path) -> None:
    seen: list[list[int]] = []

    class Watched(LocalFiles):
        def publish(self, staged: str, final: str) -> None:
            super().publish(staged, final)
            # Another job begins to write to the table, a third one reads it.
            written(table, "other", 9)
            seen.append(values(table))

    CONNECTOR.commit(spec(table), LAST_CHECKPOINT_ID, written(table, "job", 2), Watched())
    assert seen == [[1] * PARTITIONS] * (1 + PARTITIONS)
    assert values(table) == [1] * PARTITIONS + [2] * PARTITIONS
