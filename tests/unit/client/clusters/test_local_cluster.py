"""Which jobs run in this process, and what is known of those that have ended."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.client.clusters.local_cluster import (
    CHECKPOINTS_PREFIX,
    IN_PROCESS_INPUT,
    RETENTION,
    TEMPORARY,
    CommandCheckpoints,
    LocalClusterClient,
    is_small,
    is_trivial,
)
from sqlstream.client.sessions.submission import guarantee_note
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.runtime.host.process_directory import ABANDONED_S
from sqlstream.schema import Schema
from sqlstream.specs import BatchQuerySpec, SinkSpec, SourceSpec, Spec, ValuesSpec

SCHEMA = Schema.of(("a", sql.STRING))


def job(*specs: Spec, parallelism: int = 1, **config: str) -> JobGraph:
    vertices = []
    for i, spec in enumerate(specs):
        modes = (ChangelogMode.INSERT_ONLY,)
        operator = ChainedOperator(i, "", "", spec, NETWORK_INPUT, (SCHEMA,), modes, SCHEMA, modes[0])
        vertices.append(JobVertex(f"{i:032x}", "", (operator,), parallelism, 128))
    return JobGraph(
        "0" * 32,
        "job",
        tuple(vertices),
        (),
        {k.replace("__", ".").replace("_", "-"): v for k, v in config.items()},
    )


def file_of(tmp_path: Path, size: int, *, is_bounded: bool = True) -> SourceSpec:
    path = tmp_path / f"{size}.csv"
    path.write_text("x" * size)
    options = {"path": str(path), "format": "csv"}
    return SourceSpec("t", "filesystem", options, SCHEMA, ("a",), is_bounded=is_bounded)


VALUES = ValuesSpec(rows=(("x",),))


def test_literal_rows_in_one_subtask_are_trivial(tmp_path: Path) -> None:
    assert is_trivial(job(VALUES))
    assert is_trivial(job(VALUES, VALUES))
    assert not is_trivial(job(VALUES, parallelism=2))
    assert not is_trivial(job(VALUES, file_of(tmp_path, 1)))


def test_a_job_is_small_by_the_bytes_of_all_its_tables(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, 100), file_of(tmp_path, 50)
    assert is_small(job(one, two), 150)
    assert not is_small(job(one, two), 149)
    assert not is_small(job(one, file_of(tmp_path, 3, is_bounded=False)), 150)
    assert is_small(job(VALUES), 0)


def test_a_wide_job_is_not_small(tmp_path: Path) -> None:
    assert is_small(job(file_of(tmp_path, 1), parallelism=4), 100)
    assert not is_small(job(file_of(tmp_path, 1), parallelism=5), 100)


def runs_here(
    graph: JobGraph, config: dict[str, str] | None = None, task_managers: int | None = None
) -> bool:
    return LocalClusterClient(config, task_managers)._runs_in_process(graph)


def test_small_jobs_run_in_this_process_unless_settings_say_otherwise(tmp_path: Path) -> None:
    small, large = job(file_of(tmp_path, 10)), job(file_of(tmp_path, 4 * 2**20 + 1))
    assert runs_here(small)
    assert not runs_here(large)
    assert runs_here(job(file_of(tmp_path, 4 * 2**20)))
    assert not runs_here(small, task_managers=2)
    assert not runs_here(small, {"execution.target": "spark"})
    for maximum, is_here in (("10", True), ("9", False), ("0", False)):
        limited = job(file_of(tmp_path, 10))
        limited.config[IN_PROCESS_INPUT] = maximum
        assert runs_here(limited) == is_here, maximum


def test_a_batch_engine_runs_here_and_so_do_literal_rows_everywhere(tmp_path: Path) -> None:
    query = job(BatchQuerySpec(engine="duckdb", sql=""), file_of(tmp_path, 2**23))
    operators = tuple(o for vertex in query.vertices for o in vertex.operators)
    batch = msgspec.structs.replace(
        query, vertices=(msgspec.structs.replace(query.vertices[0], operators=operators),)
    )
    assert runs_here(batch)
    assert not runs_here(batch, task_managers=1)
    for config in ({}, {"execution.target": "spark"}):
        assert runs_here(job(VALUES), config)
        assert runs_here(job(VALUES), config, task_managers=2)


def test_a_job_that_was_not_submitted_is_not_known_and_a_closed_cluster_takes_none() -> None:
    client = LocalClusterClient()
    assert (client.jobs(), client.task_managers()) == ((), ())
    with pytest.raises(UserError, match='job "ab" is not known') as refused:
        client.status("ab")
    assert refused.value.code == "SS6009"
    client.close()
    with pytest.raises(UserError, match="the cluster has ended") as refused:
        client.submit(job(VALUES))
    assert refused.value.code == "SS6012"


def test_a_job_with_checkpoints_says_what_a_recovery_cannot_promise() -> None:
    table = SourceSpec("customers", "jdbc", {}, SCHEMA, ("a",))
    specs = (table, SourceSpec("days", "duckdb", {}, SCHEMA, ("a",)), SinkSpec("t", "print", {}, SCHEMA))
    assert guarantee_note(job(*specs)) == ""
    assert guarantee_note(job(*specs, execution__checkpointing__interval="1 s")) == (
        "note: connector 'print' is at-least-once: after a failure rows may come again\n"
        'note: rows of "customers", "days" are each read once only if nobody changes the table before a recovery'
    )
    assert guarantee_note(job(VALUES, execution__checkpointing__interval="1 s")) == ""


def _checkpointed(**config: str) -> JobGraph:
    return JobGraph("j", "j", (), (), {"execution.checkpointing.interval": "1 s", **config})


def test_checkpoints_of_a_killed_command_are_removed_by_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    live, retained = CommandCheckpoints(), CommandCheckpoints()
    live.note(_checkpointed())
    retained.note(_checkpointed())
    retained.note(_checkpointed(**{RETENTION: "RETAIN_ON_CANCELLATION"}))
    killed, young = (tmp_path / f"{CHECKPOINTS_PREFIX}{name}" for name in ("killed", "young"))
    for directory in (killed, young):
        (directory / "job" / "chk-1").mkdir(parents=True)
        (directory / TEMPORARY).touch()
    old_s = time.time() - ABANDONED_S - 60
    for path in (p for p in tmp_path.rglob("*") if young not in (p, *p.parents)):
        os.utime(path, (old_s, old_s))
    another = CommandCheckpoints()
    another.note(_checkpointed())
    assert not killed.exists()
    kept = (young, *(Path(each.directory) for each in (live, retained, another)))
    assert set(tmp_path.iterdir()) == set(kept)
    for each in (live, retained, another):
        each.close()
    assert set(tmp_path.iterdir()) == {young, Path(retained.directory)}
    assert list(Path(retained.directory).iterdir()) == []
