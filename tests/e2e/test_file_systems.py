"""File systems elsewhere, each against a server on loopback: tables that are watched, sinks that are killed and go on with each
row once, checkpoints and savepoints."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from command_harness import sqlstream
from file_servers import PASSWORD, SCHEMES, FileServer, running
from server_harness import JOB_TIMEOUT_S, POLL_S, RunningServer

from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.connectors.files.file_paths import find_files

pytestmark = pytest.mark.timeout(300)

WRITTEN = tuple(scheme for scheme in SCHEMES if scheme != "http")
OPEN = ("sqlstream.server.database-servers.enabled=true", "sqlstream.server.private-addresses.enabled=true")
PER_FILE = 500


def with_options(server: FileServer, path: str, **others: str) -> str:
    options = {
        "connector": "filesystem",
        "path": f"{server.root}/{path}",
        "format": "csv",
        **server.login,
        **others,
    }
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def put_numbers(server: FileServer, file: int) -> None:
    """The numbers of one file of the table that is watched."""
    first = file * PER_FILE
    server.put(f"in/{file:03}.csv", "".join(f"{n}\n" for n in range(first, first + PER_FILE)).encode())


def visible(server: FileServer) -> list[int]:
    """The numbers that a reader of the table `out` sees."""
    files = checkpoint_files(server.root, server.login)
    if files.status(f"{server.root}/out") is None:
        return []
    found = []
    for status in find_files(f"{server.root}/out", files, may_be_empty=True):
        with files.open_read(status.path) as stream:
            found += [int(line) for line in stream.read().split()]
    return sorted(found)


def wait_for_rows(server: FileServer, count: int) -> None:
    deadline_s = time.monotonic() + JOB_TIMEOUT_S
    while len(visible(server)) < count:
        assert time.monotonic() < deadline_s, visible(server)
        time.sleep(POLL_S)


@pytest.mark.parametrize(
    "scheme", ["sftp", *(pytest.param(s, marks=pytest.mark.slow) for s in WRITTEN if s != "sftp")]
)
def test_each_row_of_a_watched_table_is_written_once_by_a_job_that_is_killed_and_moved(
    scheme: str, tmp_path: Path
) -> None:
    """The table that is read, the one that is written, checkpoints and savepoint are all on the server."""
    tables = [
        "CREATE TABLE IF NOT EXISTS numbers (n BIGINT) WITH ({})",
        "CREATE TABLE IF NOT EXISTS out (n BIGINT) WITH ({})",
    ]
    (tmp_path / "files").mkdir()
    words = [word for setting in OPEN for word in ("-D", setting)]
    with running(scheme, tmp_path / "files") as server, RunningServer(tmp_path / "server", *words) as cluster:
        settings = {
            **server.login,
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": f"{server.root}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"{server.root}/savepoints",
        }

        def session() -> str:
            opened = cluster.open_session()
            for key, value in settings.items():
                cluster.execute(opened, f"SET '{key}' = '{value}'")
            watched = with_options(server, "in", **{"source.monitor-interval": "100 ms"})
            for table, options in zip(tables, (watched, with_options(server, "out")), strict=True):
                cluster.execute(opened, table.format(options))
            return opened

        put_numbers(server, 0)
        job_id = cluster.insert(session(), "INSERT INTO out SELECT n FROM numbers")
        wait_for_rows(server, PER_FILE)
        put_numbers(server, 1)
        cluster.signal(signal.SIGKILL)
        put_numbers(server, 2)
        cluster.start()
        wait_for_rows(server, 3 * PER_FILE)
        assert cluster.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"] == 1
        again = session()
        ((path,),) = cluster.execute(again, f"STOP JOB '{job_id}' WITH SAVEPOINT")
        assert path.startswith(f"{server.root}/savepoints/")
        put_numbers(server, 3)
        cluster.execute(again, f"SET 'execution.state-recovery.path' = '{path}'")
        moved = cluster.insert(again, "INSERT INTO out SELECT n FROM numbers")
        wait_for_rows(server, 4 * PER_FILE)
        assert cluster.request("PATCH", f"/jobs/{moved}", rest=True).status_code == 202
        cluster.wait_for(moved, "CANCELED")
        assert visible(server) == list(range(4 * PER_FILE))
        assert PASSWORD not in cluster.errors()


@pytest.mark.parametrize("scheme", [pytest.param(s, marks=pytest.mark.slow) for s in SCHEMES])
def test_a_table_with_partitions_is_read_by_a_pattern_and_written_where_that_is_possible(
    scheme: str, tmp_path: Path
) -> None:
    with running(scheme, tmp_path) as server:
        columns = "city STRING, n BIGINT"
        out = f"CREATE TABLE t ({columns}) PARTITIONED BY (city) WITH ({with_options(server, 't')});"
        for _ in range(2):
            done = sqlstream(
                "run", "-c", f"{out} INSERT INTO t VALUES ('Köln', 1), ('New/York', 2), ('Köln', 3);"
            )
            if not server.is_written:
                assert (done.returncode, "SS5085" in done.stderr) == (1, True)
                server.put("t/city=K%C3%B6ln/a.csv", b"3\n5\n")
                server.put("t/city=New%2FYork/b.csv", b"4\n")
                break
            assert done.returncode == 0, done.stderr
        pattern = (
            f"CREATE TABLE t ({columns}) PARTITIONED BY (city) WITH ({with_options(server, 't/city=*')});"
        )
        query = f"{pattern} SELECT city, SUM(n) AS s FROM t GROUP BY city ORDER BY city;"
        done = sqlstream("run", "--format", "csv", "-c", query)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.split()) == sorted(["city,s", "Köln,8", "New/York,4"])


def test_a_directory_of_a_web_server_is_watched(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with running("http", tmp_path / "files") as server:
        put_numbers(server, 0)
        watched = with_options(server, "in", **{"source.monitor-interval": "100 ms"})
        words = [word for setting in OPEN for word in ("-D", setting)]
        with RunningServer(tmp_path / "server", *words) as cluster:
            session = cluster.open_session()
            for statement in (
                "SET 'execution.checkpointing.interval' = '200 ms'",
                f"CREATE TABLE numbers (n BIGINT) WITH ({watched})",
                "CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
                f"'path' = '{tmp_path}/files/out')",
            ):
                cluster.execute(session, statement)
            job_id = cluster.insert(session, "INSERT INTO out SELECT n FROM numbers")
            wait_for_rows(server, PER_FILE)
            put_numbers(server, 1)
            wait_for_rows(server, 2 * PER_FILE)
            cluster.request("PATCH", f"/jobs/{job_id}", rest=True)
            cluster.wait_for(job_id, "CANCELED")
            assert visible(server) == list(range(2 * PER_FILE))
