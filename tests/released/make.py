"""`python tests/released/make.py VERSION` writes what this version keeps on disk into tests/released/VERSION.

That is the data directory of a server that was killed (its job store, its catalog and a checkpoint), a savepoint and a compiled
plan. tests/e2e/test_released.py reads them for ever."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

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
        shutil.copytree(savepoint, place / "savepoint")
        shutil.copy(work / "plan.json", place / "plan.json")
        shutil.copytree(
            work / "server",
            place / "server",
            ignore=shutil.ignore_patterns("*.sock", "log*", "lock", "audit", "server.json"),
        )
    for file in sorted(place.rglob("*")):
        print(file.relative_to(place), file.stat().st_size if file.is_file() else "")


if __name__ == "__main__":
    main(sys.argv[1])
