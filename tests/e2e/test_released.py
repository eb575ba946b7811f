"""What earlier versions have kept on disk is read for ever (tests/released/make.py writes it for each release)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from released import jobs
from released.make import PLACE, move_manifest
from server_harness import RunningServer
from spark_harness.processes import wait_until

RELEASED = Path(__file__).parents[1] / "released"
VERSIONS = sorted(path.name for path in RELEASED.iterdir() if (path / "plan.json").exists())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_goes_on_with_the_catalog_the_job_and_the_savepoint_of_an_earlier_one(
    version: str, tmp_path: Path
) -> None:
    shutil.copytree(RELEASED / version, tmp_path / "kept")
    # Git keeps no rights, and a server takes nothing that others may read.
    for path in [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    (kept,) = [path.stem for path in (tmp_path / "kept" / "server" / "jobs").glob("*.job")]
    with RunningServer(tmp_path / "kept" / "server") as server:
        session = server.open_session()
        assert {row[0] for row in server.execute(session, "SHOW TABLES")} == {"numbers", "sums", "evens"}
        server.wait_until_checkpointed(kept)
        restored = server.get(f"/jobs/{kept}/checkpoints")["latest"]["restored"]
        assert (restored["id"], restored["is_savepoint"]) == (2, False)
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{tmp_path / 'kept' / 'savepoint'}'")
        job_id = server.insert(
            session,
            "INSERT INTO sums SELECT MOD(n, 3) AS k, COUNT(*) AS n, SUM(n) AS total FROM numbers GROUP BY MOD(n, 3)",
        )
        server.wait_until_checkpointed(job_id)
        assert server.get(f"/jobs/{job_id}/checkpoints")["latest"]["restored"]["is_savepoint"]
        for job in (kept, job_id):
            server.execute(session, f"STOP JOB '{job}'")
        # It begins anew: its plan says all.
        server.execute(session, "RESET 'execution.state-recovery.path'")
        ((planned,),) = server.execute(session, f"EXECUTE PLAN '{tmp_path / 'kept' / 'plan.json'}'")
        server.wait_until_checkpointed(planned)


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_go_on_from_the_savepoints_of_an_earlier_release_with_exact_rows(
    version: str, tmp_path: Path
) -> None:
    shutil.copytree(RELEASED / version / "jobs", tmp_path / "savepoints")
    shutil.move(tmp_path / "savepoints" / "tables", tmp_path / "tables")
    before = {name: len(jobs.lines(tmp_path / "tables", name)) for name in jobs.JOBS}
    for name in jobs.JOBS:
        move_manifest(tmp_path / "savepoints" / name / "_metadata", PLACE, str(tmp_path / "tables"))
    for number in range(2):
        jobs.put_watched(tmp_path / "tables", number)
    with RunningServer(tmp_path / "server") as server:
        session = server.open_session()
        for statement in jobs.statements(tmp_path / "tables"):
            server.execute(session, statement)
        server.execute(session, "SET 'execution.checkpointing.interval' = '500 ms'")
        ids = {}
        for name, job in jobs.JOBS.items():
            path = tmp_path / "savepoints" / name
            server.execute(session, f"SET 'execution.state-recovery.path' = '{path}'")
            ids[name] = server.insert(session, f"INSERT INTO {name} {job.query}")
        for name, job_id in ids.items():
            if name == "copied":
                wait_until(lambda: len(jobs.lines(tmp_path / "tables", "copied")) >= 2 * jobs.WATCHED)
            else:
                server.wait_for(job_id, "FINISHED", timeout_s=60)
            written = jobs.lines(tmp_path / "tables", name)
            assert 0 < before[name] < len(written), name
            assert jobs.table(name, written) == jobs.expected(name), name
