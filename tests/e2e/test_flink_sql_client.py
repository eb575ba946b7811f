"""Flink's own SQL Client runs statements on our server, with the messages of `peers.flink_gateway_messages`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import ROOT
from peers.flink_gateway_messages import compile_messages
from peers.install import PeerError, find_java, flink_home
from server_harness import RunningServer

FLINK = ROOT / ".peers" / "flink"
TIMEOUT_S = 120

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class FlinkClient:
    """`sql-client.sh gateway`, without the script. State: the files below `directory`."""

    def __init__(self, directory: Path, java: str) -> None:
        self._directory = directory
        self._java = java
        home = flink_home(FLINK / "bin" / "python")
        jars = [str(jar) for folder in ("lib", "opt") for jar in sorted((home / folder).glob("*.jar"))]
        classes = compile_messages(directory, ":".join(jars))
        self._class_path = ":".join([str(classes), *jars])
        (directory / "conf").mkdir()
        (directory / "conf" / "config.yaml").write_text("{}\n")

    def start(self, server: RunningServer, script: str) -> subprocess.Popen[str]:
        path = self._directory / "script.sql"
        path.write_text(script)
        address = server.gateway.removeprefix("http://")
        words = [
            *(self._java, f"-Duser.home={self._directory}", "-cp", self._class_path),
            *("org.apache.flink.table.client.SqlClient", "gateway", "-e", address, "-f", str(path)),
        ]
        return subprocess.Popen(
            words,
            env={"PATH": os.environ["PATH"], "FLINK_CONF_DIR": str(self._directory / "conf")},
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, server: RunningServer, script: str) -> str:
        """What it prints, without colours."""
        with self.start(server, script) as process:
            try:
                return re.sub(r"\x1b\[[\d;]*m", "", process.communicate(timeout=TIMEOUT_S)[0])
            finally:
                process.kill()


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> FlinkClient:
    if not list(FLINK.glob("lib/python*/site-packages/pyflink/opt/flink-sql-client-*.jar")):
        pytest.skip("Flink is not here: make bench-peers puts it into .peers")
    try:
        java, _ = find_java()
        return FlinkClient(tmp_path_factory.mktemp("flink"), java)
    except (PeerError, FileNotFoundError) as error:
        pytest.skip(f"Flink's SQL Client cannot run: {error}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as found:
        yield found


TABLEAU = "SET 'sql-client.execution.result-mode' = 'TABLEAU';\n"
COUNTED = (
    "CREATE TEMPORARY TABLE g (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',"
    " 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{rows}');\n"
)
SCRIPT = (
    TABLEAU
    + COUNTED.format(rows=5)
    + """
SHOW TABLES;
DESCRIBE g;
SELECT id, id * 2 AS twice FROM g;
SELECT * FROM (VALUES (CAST(1.50 AS DECIMAL(5, 2)), CAST(NULL AS STRING), DATE '2024-02-29', TRUE)) AS t (d, n, day, b);
EXPLAIN SELECT id FROM g WHERE id > 3;
CREATE TEMPORARY TABLE sink (id BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO sink SELECT id FROM g;
SET 'table.dml-sync' = 'true';
INSERT INTO sink SELECT id FROM g;
SET;
SELECT nothing FROM g;
SHOW CATALOGS;
"""
)
PRINTED = (
    """
| table name |
+------------+
|          g |
""",
    """
|   id | BIGINT | TRUE | <NULL> | <NULL> |    <NULL> |
| name | STRING | TRUE | <NULL> | <NULL> |    <NULL> |
""",
    """
| op |                   id |                twice |
+----+----------------------+----------------------+
| +I |                    1 |                    2 |
| +I |                    2 |                    4 |
| +I |                    3 |                    6 |
| +I |                    4 |                    8 |
| +I |                    5 |                   10 |
+----+----------------------+----------------------+
Received a total of 5 rows""",
    "| +I |    1.50 |                         <NULL> | 2024-02-29 |   TRUE |",
    "== Optimized Physical Plan ==",
    "SQL update statement has been successfully submitted to the cluster:\nJob ID: ",
    "Complete execution of the SQL update statement.",
    """
| sql-client.execution.result-mode | TABLEAU |
|                   table.dml-sync |    true |
""",
    """Could not execute SQL statement. Reason:
error[SS2003]: column "nothing" does not exist in table "g"
  1 | SELECT nothing FROM g;
    |        ^^^^^^^
""",
)


def test_a_script_prints_as_with_flinks_gateway_until_its_first_error(
    flink: FlinkClient, server: RunningServer
) -> None:
    said = flink.run(server, SCRIPT)
    place = 0
    for part in PRINTED:
        found = said.find(part.strip("\n"), place)
        assert found >= 0, f"{part}\nis not in\n{said[place:]}"
        place = found
    assert "catalog name" not in said


def test_a_long_result_arrives_whole(flink: FlinkClient, server: RunningServer) -> None:
    said = flink.run(server, TABLEAU + COUNTED.format(rows=50_000) + "SELECT id FROM g;\n")
    ids = [int(line.split("|")[2]) for line in said.splitlines() if line.startswith("| +I |")]
    assert sorted(ids) == list(range(1, 50_001))
    assert "Received a total of 50000 rows" in said


def test_an_interrupted_client_leaves_no_query(flink: FlinkClient, server: RunningServer) -> None:
    unbounded = (
        "CREATE TEMPORARY TABLE u (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');\n"
    )
    before = set(server.statuses())
    with flink.start(server, TABLEAU + unbounded + "SELECT id FROM u;\n") as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith("| +I |") for line in process.stdout), "rows come"
            (job,) = set(server.statuses()) - before
            process.send_signal(signal.SIGINT)
            assert server.wait_for(job, "CANCELED") == "CANCELED"
            process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
