"""`python tests/released/make.py VERSION` writes what this version keeps on disk into tests/released/VERSION.

That is the data directory of a server that was killed (its job store, its catalog and a checkpoint), a savepoint, a compiled
plan, and for each of jobs.py a savepoint and its table. tests/e2e/test_released.py reads them for ever.

The layouts of its files stand beside them. In the checkout of an earlier release, with this folder copied into it, its own code
runs."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from released import jobs, layouts
from server_harness import RunningServer

HERE = Path(__file__).parent
TABLES = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200',"
    " 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000')",
    "CREATE TABLE sums (k BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'blackhole')",
    "CREATE VIEW evens AS SELECT n FROM numbers WHERE MOD(n, 2) = 0",
)
QUERY = "SELECT MOD(n, 3) AS k, COUNT(*) AS n, SUM(n) AS total FROM numbers GROUP BY MOD(n, 3)"
INSERT = f"INSERT INTO sums {QUERY}"


def main(version: str) -> None:
    place = HERE / version
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with tempfile.TemporaryDirectory(prefix="released-") as directory:
        keep_jobs(Path(directory) / "jobs", place / "jobs")
        work = Path(directory)
        with RunningServer(work / "server", is_forked=False) as server:
            session = server.open_session()
            for table in TABLES:
                server.execute(session, table)
            server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
            server.execute(session, f"SET 'execution.checkpointing.savepoint-dir' = '{work / 'savepoints'}'")
            server.execute(session, f"COMPILE PLAN '{work / 'plan.json'}' FOR {INSERT}")
            stopped = server.insert(session, INSERT)
            server.wait_until_checkpointed(stopped, 2)
            ((savepoint,),) = server.execute(session, f"STOP JOB '{stopped}' WITH SAVEPOINT")
            server.wait_until_checkpointed(server.insert(session, INSERT), 2)
        layouts.write(place / "layouts.json")
        shutil.copytree(savepoint, place / "savepoint")
        shutil.copy(work / "plan.json", place / "plan.json")
        shutil.copytree(
            work / "server",
            place / "server",
            ignore=shutil.ignore_patterns("*.sock", "log*", "lock", "audit", "server.json"),
        )
    for file in sorted(place.rglob("*")):
        print(file.relative_to(place), file.stat().st_size if file.is_file() else "")


def keep_jobs(work: Path, place: Path) -> None:
    """Stop each job with a savepoint when it has written something, in the midst of its input."""
    work.mkdir()
    place.mkdir(parents=True)
    jobs.put_watched(work, 0)
    with RunningServer(work / "server", is_forked=False) as server:
        session = server.open_session()
        for statement in jobs.statements(work):
            server.execute(session, statement)
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        server.execute(session, f"SET 'execution.checkpointing.savepoint-dir' = '{work / 'savepoints'}'")
        ids = {
            name: server.insert(session, f"INSERT INTO {name} {job.query}") for name, job in jobs.JOBS.items()
        }
        for name, job_id in ids.items():
            while not jobs.lines(work, name):
                time.sleep(0.05)
            ((savepoint,),) = server.execute(session, f"STOP JOB '{job_id}' WITH SAVEPOINT")
            shutil.copytree(savepoint, place / name)
            move_manifest(place / name / "_metadata", str(work), PLACE)
        for name, job_id in ids.items():
            server.wait_for(job_id, "FINISHED")
            # With the log of the table: whoever goes on repeats the last commit.
            shutil.copytree(work / name, place / "tables" / name)


PLACE = "/directory-of-the-jobs"
"""What stands in manifests for the directory of the tables' files."""


def move_manifest(path: Path, old: str, new: str) -> None:
    """Another directory of the tables in a manifest, with its checksum."""
    file = json.loads(path.read_bytes())
    text = json.dumps(file["checkpoint"], separators=(",", ":")).replace(old, new)
    file["checkpoint"] = json.loads(text)
    file["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    # The checksum is that of the bytes as they stand in the file.
    path.write_text(json.dumps(file, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
