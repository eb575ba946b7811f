"""A server that was killed, and whose newest checkpoint is damaged: its job goes on from an older one, or says why it cannot."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from server_harness import RunningServer

from sqlstream.messages.checkpoint import checkpoint_of_path
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = 6_000
SINKS = {
    "blackhole": "'connector' = 'blackhole'",
    "filesystem": "'connector' = 'filesystem', 'path' = '{out}', 'format' = 'json'",
}


def begin(server: RunningServer, sink: str, out: Path) -> str:
    """A job that keeps each of its rows as state, and three checkpoints."""
    session = server.open_session()
    for text in (
        "CREATE TABLE numbers (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', "
        f"'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{ROWS}')",
        f"CREATE TABLE out (n BIGINT) WITH ({SINKS[sink].format(out=out)})",
        "SET 'execution.checkpointing.interval' = '200 ms'",
        "SET 'execution.checkpointing.num-retained' = '3'",
    ):
        server.execute(session, text)
    job_id = server.insert(
        session,
        "INSERT INTO out SELECT n FROM (SELECT n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY p) AS r FROM numbers) WHERE r = 1",
    )
    server.wait_until_checkpointed(job_id, 4, timeout_s=60)
    return job_id


def checkpoints(server: RunningServer, job_id: str) -> Any:
    return server.get(f"/jobs/{job_id}/checkpoints")


def damage_newest(directory: Path) -> tuple[Path, list[int]]:
    """Flip a bit in the file that was written for the newest checkpoint; returns it and the ids of all, newest first."""
    found = CheckpointStore().latest(str(directory), {})
    newest = found[0].manifest
    (own,) = (p for p in newest.paths() if checkpoint_of_path(p) == newest.checkpoint_id)
    path = directory / own
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path, [stored.manifest.checkpoint_id for stored in found]


@pytest.mark.parametrize("sink", SINKS)
def test_a_damaged_checkpoint_is_named_and_passed_over_unless_its_rows_are_committed(
    tmp_path: Path, sink: str
) -> None:
    out, data = tmp_path / "out", tmp_path / "server"
    with RunningServer(data) as server:
        job_id = begin(server, sink, out)
        server.signal(signal.SIGKILL)
    path, ids = damage_newest(data / "checkpoints" / job_id)
    with RunningServer(data) as server:
        if sink == "blackhole":
            server.wait_for(job_id, "FINISHED")
            restored = checkpoints(server, job_id)["latest"]["restored"]
            assert restored["id"] == ids[1]
        else:
            # To go back behind what readers of the table have seen would write rows twice.
            server.wait_for(job_id, "FAILED")
            causes = server.get(f"/jobs/{job_id}/exceptions")
            assert str(path) in str(causes)
        log = "".join(p.read_text() for p in (data / "logs").iterdir())
        assert str(path) in log
