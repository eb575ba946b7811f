"""Kafka to Kafka, while servers, TaskManagers and the broker end at bad moments: each row is there once."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kafka_harness import Broker, running_broker, table
from server_harness import RunningServer
from spark_harness.processes import wait_until

PER_SECOND = 500
SECONDS = float(os.environ.get("SQLSTREAM_KAFKA_CHAOS_SECONDS", "30"))
"""How long the long run lasts."""
GONE_S, FORGETS_S, OPEN_S = 60.0, 2.0, 0.2
ENDS = 4
WRITTEN_TIMEOUT_S = 120


def source(rows: int) -> str:
    options = {
        "connector": "datagen",
        "fields.n.kind": "sequence",
        "fields.n.start": "1",
        "fields.n.end": str(rows),
        "rows-per-second": str(PER_SECOND),
    }
    return table("numbers", "n BIGINT", options)


def kill_server(server: RunningServer) -> None:
    server.kill()
    server.start()


def kill_task_manager(server: RunningServer) -> None:
    for child in server.task_managers()[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


@dataclasses.dataclass
class Copying:
    """A job that writes numbers to a topic, and one that copies them to another, exactly once. State: the processes."""

    broker: Broker
    server: RunningServer
    topics: tuple[str, str]
    jobs: tuple[str, str]
    ended: Counter[str] = dataclasses.field(default_factory=Counter)

    def end(self, what: str, gone_s: float = 0.0) -> None:
        self.ended[what] += 1
        if what == "server":
            kill_server(self.server)
        elif what == "TaskManager":
            kill_task_manager(self.server)
        else:
            self.stop_broker()
            time.sleep(gone_s)
            self.broker.start()

    def stop_broker(self) -> None:
        """While nobody writes, and no transaction is open: this broker forgets what it has acknowledged in the last second, and
        says of a transaction that it has forgotten that it is committed. No client can mend either."""
        deadline_s = time.monotonic() + WRITTEN_TIMEOUT_S
        while True:
            found = [psutil.Process(self.server.process.pid), *self.server.children()]
            try:
                with contextlib.suppress(psutil.NoSuchProcess):
                    for process in found:
                        process.suspend()
                    time.sleep(FORGETS_S)
                    if not any(map(self.broker.has_open_transaction, self.topics)):
                        self.broker.stop()
                        return
            finally:
                for process in found:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.resume()
            assert time.monotonic() < deadline_s, "a transaction stays open"
            time.sleep(OPEN_S)

    def numbers(self, topic: str) -> Counter[int]:
        return Counter(json.loads(message.value())["n"] for message in self.broker.messages(topic))

    def check(self, rows: int, timeout_s: float = WRITTEN_TIMEOUT_S) -> None:
        first, second = self.topics
        wait_until(lambda: len(self.numbers(second)) >= rows, timeout_s)
        assert self.server.wait_for(self.jobs[0], "FINISHED", "FAILED") == "FINISHED", self.server.errors()
        for topic in (first, second):
            assert self.numbers(topic) == Counter(range(1, rows + 1))
        self.server.request("PATCH", f"/jobs/{self.jobs[1]}", rest=True)


@contextlib.contextmanager
def copying(place: Path, rows: int) -> Iterator[Copying]:
    setting = "sqlstream.server.database-servers.enabled=true"
    with (
        running_broker(place / "broker") as broker,
        RunningServer(place / "server", "--task-managers", "1", "-D", setting) as server,
    ):
        first, second = broker.topic(3), broker.topic(2)
        session = server.open_session()
        server.execute(session, "SET 'execution.checkpointing.interval' = '300 ms'")
        server.execute(session, source(rows))
        for name, topic in (("a", first), ("b", second)):
            options = broker.options(topic) | {
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": topic,
                "sink.staging-directory": str(place / "staging"),
            }
            del options["scan.bounded.mode"]
            server.execute(session, table(name, "n BIGINT", options))
        made = server.insert(session, "INSERT INTO a SELECT n FROM numbers")
        copied = server.insert(session, "INSERT INTO b SELECT n FROM a")
        yield Copying(broker, server, (first, second), (made, copied))


@pytest.mark.timeout(600)
def test_each_row_is_there_once_after_a_start_of_the_server_that_does_not_let_it_reach_the_broker(
    tmp_path: Path,
) -> None:
    rows = 1500
    with copying(tmp_path, rows) as run:
        for job_id in run.jobs:
            run.server.wait_until_checkpointed(job_id)
        run.server.signal(signal.SIGKILL)
        with RunningServer(tmp_path / "server", "--task-managers", "1") as barred:
            for job_id in run.jobs:
                barred.wait_for(job_id, "RESTARTING")
                (newest, *_) = barred.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
                assert newest["exceptionName"] == "SS5031"
        run.server.start()
        run.check(rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_each_row_is_there_once(seed: int, tmp_path: Path) -> None:
    chance, rows = random.Random(seed), 6000
    with copying(tmp_path, rows) as run:
        for _ in range(ENDS):
            time.sleep(chance.uniform(1.0, 2.5))
            run.end(chance.choice(("server", "TaskManager", "broker")), chance.uniform(0.5, 2.0))
        run.check(rows)


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS + GONE_S + 600)
def test_each_row_is_there_once_after_minutes_of_it(tmp_path: Path) -> None:
    """The broker is also gone for a minute."""
    # The numbers wait while processes begin anew.
    chance, rows = random.Random(24), int(SECONDS * PER_SECOND / 2)
    with copying(tmp_path, rows) as run:
        begin_s, is_long = time.monotonic(), True
        while (spent_s := time.monotonic() - begin_s) < SECONDS:
            time.sleep(chance.uniform(3.0, 9.0))
            if is_long and spent_s > SECONDS / 2:
                run.end("broker for a minute", GONE_S)
                is_long = False
            else:
                run.end(chance.choice(("server", "TaskManager", "broker")), chance.uniform(0.5, 2.0))
        run.check(rows, SECONDS + WRITTEN_TIMEOUT_S)
        print(f"{rows} rows in {time.monotonic() - begin_s:.0f} s; ended: {dict(run.ended)}")
