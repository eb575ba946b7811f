"""A job that a server brings back knows what it has claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_harness import manifest

from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore, recovered_checkpoints

STORE = CheckpointStore()


def recovered(tmp_path: Path, mode: str = "CLAIM") -> list[str]:
    """Where the checkpoints lie that a job goes on from which was started with chk-3 of another."""
    config = {
        "execution.state-recovery.path": str(tmp_path / "before" / "chk-3"),
        "execution.state-recovery.claim-mode": mode,
    }
    job = JobGraph("job", "job", (), (), config)
    found = recovered_checkpoints(STORE, job, str(tmp_path / "own"))
    return [str(Path(stored.path).relative_to(tmp_path)) for stored in found]


def store(tmp_path: Path, name: str, *checkpoint_ids: int) -> None:
    for checkpoint_id in checkpoint_ids:
        STORE.store(str(tmp_path / name), manifest(checkpoint_id))


def test_what_is_claimed_comes_behind_the_job_s_own_until_it_is_removed(tmp_path: Path) -> None:
    store(tmp_path, "before", 3)
    store(tmp_path, "own", 4, 5)
    assert recovered(tmp_path) == ["own/chk-5", "own/chk-4", "before/chk-3"]
    STORE.discard(str(tmp_path / "before"), manifest(3), frozenset(), {})
    assert recovered(tmp_path) == ["own/chk-5", "own/chk-4"]


def test_what_is_not_claimed_is_not_the_job_s_to_go_back_to(tmp_path: Path) -> None:
    store(tmp_path, "before", 3)
    store(tmp_path, "own", 4)
    assert recovered(tmp_path, "NO_CLAIM") == ["own/chk-4"]


def test_a_claimed_one_that_is_torn_is_left_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store(tmp_path, "before", 3)
    store(tmp_path, "own", 4)
    torn = tmp_path / "before" / "chk-3" / "_metadata"
    torn.write_bytes(torn.read_bytes()[:40])
    assert recovered(tmp_path) == ["own/chk-4"]
    assert str(torn) in caplog.text


def test_a_job_without_checkpoints_of_its_own_is_begun_as_it_was_submitted(tmp_path: Path) -> None:
    store(tmp_path, "before", 3)
    assert recovered(tmp_path) == []
