"""A job that reads `t$errors` for ever: each undecodable row comes to a table of its own once, while another job rejects them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_harness import TIMEOUT_S
from server_harness import RunningServer
from spark_harness.processes import wait_until

WATCHED = "'source.monitor-interval' = '50 ms'"


def tables(place: Path) -> list[str]:
    return [
        f"CREATE TABLE t (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{place}/in', 'format' = 'csv',"
        f" 'csv.ignore-parse-errors' = 'true', {WATCHED})",
        f"CREATE TABLE good (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{place}/good', 'format' = 'csv')",
        f"CREATE TABLE dead (line BIGINT, `text` STRING) WITH ('connector' = 'filesystem', 'path' = '{place}/dead',"
        " 'format' = 'csv')",
    ]


def rows(place: Path) -> list[str]:
    files = [path for path in place.glob("*") if not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().split())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_row_comes_once_although_the_server_is_killed(tmp_path: Path, parallelism: int) -> None:
    (tmp_path / "in").mkdir()

    def rejected(part: int) -> None:
        """Another file comes, with as many rows that are undecodable, and they are there with those before."""
        lines = "".join(f"{n}\nx{part}-{n}\n" for n in range(50))
        (tmp_path / f"new-{part}").write_text(lines)
        (tmp_path / f"new-{part}").rename(tmp_path / "in" / f"{part}.csv")
        wanted = sorted(f"{2 * n + 2},x{p}-{n}" for p in range(part + 1) for n in range(50))
        wait_until(lambda: len(rows(tmp_path / "dead")) >= len(wanted), TIMEOUT_S)
        assert rows(tmp_path / "dead") == wanted

    server = RunningServer(tmp_path / "server")
    with server:
        session = server.open_session()
        for text in tables(tmp_path):
            server.execute(session, text)
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        server.execute(session, f"SET 'parallelism.default' = '{parallelism}'")
        server.insert(session, "INSERT INTO good SELECT n FROM t")
        server.insert(
            session,
            f"INSERT INTO dead SELECT line, `text` FROM t$errors /*+ OPTIONS({WATCHED}) */",
        )
        for part in range(2):
            rejected(part)
        server.kill()
        server.start()
        for part in range(2, 4):
            rejected(part)
