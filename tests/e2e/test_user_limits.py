"""How many jobs and sessions the users of a server have, by its settings and by their tokens."""

from __future__ import annotations

from pathlib import Path

from command_harness import sqlstream
from server_harness import RunningServer

TABLES = (
    "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')",
    "CREATE TEMPORARY TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole')",
)
INSERT = "INSERT INTO nothing SELECT n FROM ticks"


def test_a_user_is_told_when_no_other_job_or_session_may_be(tmp_path: Path) -> None:
    words = ("sqlstream.server.authentication=ALWAYS", "sqlstream.server.jobs.per-user.max-num=1")
    words += ("sqlstream.gateway.sessions.per-user.max-num=1", "sqlstream.server.slots.per-job.max-num=2")
    data = tmp_path / "data"
    with RunningServer(data, *(word for setting in words for word in ("-D", setting))) as server:
        tokens = {}
        for name, more in (("ann", ()), ("bob", ("--max-jobs", "2", "--max-sessions", "0"))):
            made = sqlstream("token", "add", name, *more, "--data-dir", str(data))
            assert made.returncode == 0, made.stderr
            tokens[name] = made.stdout.strip()
        assert "bob  operator  at most 2 jobs" in sqlstream("token", "list", "--data-dir", str(data)).stdout

        def as_user(name: str) -> str:
            server.headers = {"Authorization": f"Bearer {tokens[name]}"}
            session = server.open_session()
            for statement in TABLES:
                server.execute(session, statement)
            return session

        session = as_user("ann")
        refused = server.request("POST", "/v3/sessions", {})
        assert (refused.status_code, "SS6125" in refused.text) == (500, True), refused.text
        server.execute(session, "SET 'parallelism.default' = '3'")
        assert "SS6124" in failed(server, session)
        server.execute(session, "SET 'parallelism.default' = '1'")
        first = server.insert(session, INSERT)
        assert "SS6123" in failed(server, session)
        # Another user has a limit of the token, and any number of sessions.
        other, again = as_user("bob"), as_user("bob")
        jobs = [server.insert(other, INSERT), server.insert(again, INSERT)]
        assert "SS6123" in failed(server, again)
        server.request("PATCH", f"/jobs/{jobs[0]}?mode=cancel", rest=True)
        server.wait_for(jobs[0], "CANCELED")
        jobs.append(server.insert(other, INSERT))
        for job_id in (first, *jobs[1:]):
            server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
            server.wait_for(job_id, "CANCELED")


def failed(server: RunningServer, session: str) -> str:
    """The error of an INSERT."""
    try:
        return f"job {server.insert(session, INSERT)}"
    except AssertionError as error:
        return str(error)
