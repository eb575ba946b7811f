"""Kafka to Kafka, while servers, TaskManagers and the broker end at bad moments: each row is there once."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from command_harness import TIMEOUT_S
from kafka_harness import running_broker, table
from server_harness import RunningServer
from spark_harness.processes import wait_until

ROWS, PER_SECOND = 6000, 500
ENDS = 4
WRITTEN_TIMEOUT_S = 120
SOURCE = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    f"'fields.n.end' = '{ROWS}', 'rows-per-second' = '{PER_SECOND}')"
)


def kill_server(server: RunningServer) -> None:
    children = server.children()
    server.signal(signal.SIGKILL)
    psutil.wait_procs(children, TIMEOUT_S)
    server.start()


def kill_task_manager(server: RunningServer) -> None:
    for child in server.children():
        if any("taskmanager" in word for word in child.cmdline()):
            child.kill()
            return


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_each_row_is_there_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with running_broker(tmp_path / "broker") as broker:
        first, second = broker.topic(3), broker.topic(2)
        server = RunningServer(
            tmp_path / "server",
            "--task-managers",
            "1",
            "-D",
            "sqlstream.server.database-servers.enabled=true",
        )
        with server:
            session = server.open_session()
            server.execute(session, "SET 'execution.checkpointing.interval' = '300 ms'")
            server.execute(session, SOURCE)
            for name, topic in (("a", first), ("b", second)):
                options = broker.options(topic) | {
                    "sink.delivery-guarantee": "exactly-once",
                    "sink.transactional-id-prefix": topic,
                    "sink.staging-directory": str(tmp_path / "staging"),
                }
                del options["scan.bounded.mode"]
                server.execute(session, table(name, "n BIGINT", options))
            made = server.insert(session, "INSERT INTO a SELECT n FROM numbers")
            copied = server.insert(session, "INSERT INTO b SELECT n FROM a")
            for _ in range(ENDS):
                time.sleep(chance.uniform(1.0, 2.5))
                what = chance.choice(("server", "TaskManager", "broker"))
                if what == "server":
                    kill_server(server)
                elif what == "TaskManager":
                    kill_task_manager(server)
                else:
                    broker.stop()
                    time.sleep(chance.uniform(0.5, 2.0))
                    broker.start()

            def numbers(topic: str) -> Counter[int]:
                return Counter(json.loads(message.value())["n"] for message in broker.messages(topic))

            wait_until(lambda: len(numbers(second)) >= ROWS, WRITTEN_TIMEOUT_S)
            assert server.wait_for(made, "FINISHED", "FAILED") == "FINISHED", server.errors()
            for topic in (first, second):
                assert numbers(topic) == Counter(range(1, ROWS + 1))
            server.request("PATCH", f"/jobs/{copied}", rest=True)
