"""Jobs with checkpoints on a server: killed, stopped, ended with a savepoint and gone on, with each row in the sink once."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from command_harness import sqlstream
from server_harness import JOB_TIMEOUT_S, POLL_S, RunningServer

ROWS = 4000
PER_SECOND = 1000


def declare(server: RunningServer, session: str, out: Path, rows: int, per_second: int) -> None:
    server.execute(
        session,
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '{per_second}', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}')",
    )
    server.execute(
        session,
        f"CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')",
    )
    server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")


def begin(
    server: RunningServer, out: Path, rows: int = ROWS, per_second: int = PER_SECOND
) -> tuple[str, str]:
    """A session, and its job that writes the numbers, of which two checkpoints are complete."""
    session = server.open_session()
    declare(server, session, out, rows, per_second)
    job_id = server.insert(session, "INSERT INTO out SELECT n FROM numbers")
    server.wait_until_checkpointed(job_id, 2)
    return session, job_id


def completed(server: RunningServer, job_id: str) -> int:
    return int(server.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])


def written(out: Path) -> list[int]:
    """The rows that a reader of the table sees."""
    return sorted(
        json.loads(line)["n"]
        for path in out.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(out).parts)
        for line in path.read_text().splitlines()
    )


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGTERM, id="stopped", marks=pytest.mark.slow),
    ],
)
def test_a_server_brings_its_jobs_back_from_their_last_checkpoint(tmp_path: Path, number: int) -> None:
    # On a busy machine a job may have ended before the signal: one that writes for longer has not.
    for rows in (ROWS, 8 * ROWS, 64 * ROWS):
        out = tmp_path / f"out-{rows}"
        with RunningServer(tmp_path / "server") as server:
            _, job_id = begin(server, out, rows)
            server.signal(number)
        visible = written(out)
        if len(visible) < rows:
            break
    assert 0 < len(visible) < rows
    with RunningServer(tmp_path / "server") as server:
        server.wait_for(job_id, "FINISHED")
        statistics = server.get(f"/jobs/{job_id}/checkpoints")
        assert statistics["counts"]["restored"] == 1
        path = statistics["latest"]["restored"]["external_path"]
        assert path.startswith(str(tmp_path / "server" / "checkpoints" / job_id / "chk-"))
        log = "".join(p.read_text() for p in (tmp_path / "server" / "logs").iterdir())
        assert f"goes on from {path}" in log
        assert written(out) == list(range(1, rows + 1))
        # They are removed beside the end of the job.
        deadline_s = time.monotonic() + JOB_TIMEOUT_S
        while (tmp_path / "server" / "checkpoints" / job_id).exists():
            assert time.monotonic() < deadline_s
            time.sleep(POLL_S)


def test_a_job_ends_with_a_savepoint_and_another_goes_on_from_it(tmp_path: Path) -> None:
    out, count = tmp_path / "out", 100_000
    with RunningServer(tmp_path / "server") as server:
        # It would take more than a quarter of an hour.
        session, job_id = begin(server, out, count, per_second=100)
        rows = server.execute(session, f"SHOW CHECKPOINTS FOR JOB '{job_id}'")
        assert {row[0] for row in rows} == {job_id}
        assert "COMPLETED" in {row[3] for row in rows}
        server.execute(session, f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path / 'savepoints'}'")
        ((path,),) = server.execute(session, f"STOP JOB '{job_id}' WITH SAVEPOINT")
        assert server.statuses()[job_id] == "FINISHED"
        before = written(out)
        assert before == list(range(1, len(before) + 1))
        assert 0 < len(before) < count
        server.execute(session, "ALTER TABLE numbers SET ('rows-per-second' = '1000000')")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{path}'")
        again = server.insert(session, "INSERT INTO out SELECT n FROM numbers")
        server.wait_for(again, "FINISHED")
        assert written(out) == list(range(1, count + 1))
        disposed = server.request("POST", "/savepoint-disposal", {"savepoint-path": path}, rest=True).json()
        assert server.get(f"/savepoint-disposal/{disposed['request-id']}") == {
            "status": {"id": "COMPLETED"},
            "operation": {},
        }
        assert not Path(path).exists()


def test_commands_take_and_stop_with_savepoints_where_the_server_allows_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    roots = ("-D", f"sqlstream.server.file-roots={tmp_path / 'data'}")
    with RunningServer(tmp_path / "server", *roots) as server:
        session, job_id = begin(server, tmp_path / "data" / "out", rows=1_000_000)
        for directory in ("/etc/savepoints", str(tmp_path / "server")):
            answer = server.request(
                "POST", f"/jobs/{job_id}/savepoints", {"target-directory": directory}, rest=True
            )
            assert (answer.status_code, "SS5030" in answer.text) == (400, True)
            assert "SS5030" in refused(server, session, f"SET 'execution.checkpointing.dir' = '{directory}'")
        savepoints = ("--directory", str(tmp_path / "data" / "savepoints"))
        path = command(server, "savepoint", job_id[:8], *savepoints).strip()
        assert command(server, "savepoint", "--dispose", path) == f"removed {path}\n"
        stopped = json.loads(command(server, "stop", job_id[:8], "--drain", "--json", *savepoints))
        assert (stopped["jid"], stopped["state"]) == (job_id, "FINISHED")
        assert (Path(stopped["savepoint"]) / "_metadata").exists()
        listed = json.loads(command(server, "checkpoints", job_id, "--json"))
        assert listed["latest"]["savepoint"]["checkpoint_type"] == "SYNC_SAVEPOINT"
        assert "SYNC_SAVEPOINT" in command(server, "checkpoints", job_id)


def command(server: RunningServer, *words: str) -> str:
    """What a command says that has succeeded."""
    ended = sqlstream(*words, "--server", server.gateway)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(server: RunningServer, session: str, sql: str) -> str:
    """The error of a statement."""
    with pytest.raises(AssertionError) as raised:
        server.execute(session, sql)
    return str(raised.value)
