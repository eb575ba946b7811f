"""A job that keeps local copies of its state goes on from them, as long as they are as they were written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from command_harness import TIMEOUT_S
from server_harness import POLL_S, RunningServer

NUMBERS = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    "'fields.n.end' = '1000000', 'rows-per-second' = '1000')"
)


class CopiedJob:
    """Distinct numbers into a table, whose checkpoints are taken on request. State: the server's session and the job."""

    def __init__(self, server: RunningServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.session = server.open_session()
        for text in (
            "SET 'execution.checkpointing.interval' = '1 d'",
            "SET 'execution.state-recovery.from-local' = 'true'",
            NUMBERS,
            "CREATE TABLE seen (n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'duckdb', "
            f"'path' = '{directory}/seen.duckdb', 'table-name' = 't')",
        ):
            server.execute(self.session, text)
        self.id = server.insert(self.session, "INSERT INTO seen SELECT DISTINCT n FROM numbers")
        server.wait_for(self.id, "RUNNING")

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.server.get(f"/jobs/{self.id}/checkpoints")["counts"]
        return counts

    def checkpoint(self, number: int) -> None:
        response = self.server.request("POST", f"/jobs/{self.id}/checkpoints", {}, rest=True)
        assert response.status_code == 202, response.text
        self.wait_until("completed", number)

    def wait_until(self, name: str, count: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.counts()[name] < count:
            assert time.monotonic() < deadline_s, self.counts()
            time.sleep(POLL_S)

    def kill_task_manager(self, restored: int) -> str:
        """Returns what is said of the checkpoint that the job went on from."""
        (child,) = self.server.task_managers()
        child.kill()
        self.wait_until("restored", restored)
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (remark := self.remark()):
            assert time.monotonic() < deadline_s
            time.sleep(POLL_S)
        return remark

    def remark(self) -> str:
        rows = self.server.execute(self.session, f"SHOW CHECKPOINTS FOR JOB '{self.id}'")
        return "".join(str(row[-1]) for row in rows if "went on" in str(row[-1]))

    def originals(self) -> list[Path]:
        return sorted((self.directory / "server" / "checkpoints" / self.id / "shared").glob("*.arrow"))

    def copies(self) -> list[Path]:
        return sorted((self.directory / "work" / "localState").glob(f"*/{self.id}/*.arrow"))


def damage(paths: list[Path]) -> None:
    """Put files with a flipped bit at their places; other names of the same files keep the right bytes."""
    assert paths
    for path in paths:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        draft = path.with_suffix(".draft")
        draft.write_bytes(data)
        os.replace(draft, path)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[CopiedJob]:
    working = f"process.taskmanager.working-dir={tmp_path / 'work'}"
    with RunningServer(tmp_path / "server", "--task-managers", "1", "-D", working) as server:
        yield CopiedJob(server, tmp_path)


@pytest.mark.timeout(300)
def test_a_killed_task_manager_leaves_copies_to_the_next_which_trusts_none_that_is_damaged(
    job: CopiedJob,
) -> None:
    job.checkpoint(1)
    assert [p.name for p in job.copies()] == [p.name for p in job.originals()]
    # Only from the copies can the job go on.
    damage(job.originals())
    assert "of local copies" in (remark := job.kill_task_manager(restored=1))
    assert "of the store" not in remark
    job.checkpoint(2)
    deadline_s = time.monotonic() + TIMEOUT_S
    while [p.name for p in job.copies()] != [p.name for p in job.originals()]:
        assert time.monotonic() < deadline_s, (job.copies(), job.originals())
        time.sleep(POLL_S)
    damage(job.copies())
    assert "of the store" in (remark := job.kill_task_manager(restored=2))
    assert "of local copies" not in remark
    job.checkpoint(3)
    job.server.request("PATCH", f"/jobs/{job.id}", rest=True)
    job.server.wait_for(job.id, "CANCELED")
    with duckdb.connect(f"{job.directory}/seen.duckdb", read_only=True) as connection:
        found = sorted(n for (n,) in connection.execute("SELECT n FROM t").fetchall())
    assert found == list(range(1, len(found) + 1))
    assert found
    deadline_s = time.monotonic() + TIMEOUT_S
    while job.copies():
        assert time.monotonic() < deadline_s, job.copies()
        time.sleep(POLL_S)
