"""A server with `execution.target` = standalone and TaskManagers that join it, as tests start them, and a job to watch."""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
from command_harness import (
    ROOT,
    SQLSTREAM,
    Process,
    children_of,
    environment,
    sqlstream,
    wait_until_ended,
)
from server_harness import RunningServer
from spark_harness.processes import wait_until

from sqlstream.runtime.connectors.generators.numbered_rows import rows_at_tick

STANDALONE = (
    "-D", "execution.target=standalone", "-D", "jobmanager.join.port=0", "-D", "heartbeat.interval=500 ms",
    "-D", "heartbeat.timeout=10 min",
)  # fmt: skip

RATE = 250
ENDLESS = 10**12


class Worker:
    """A `sqlstream taskmanager` that is killed at the end, unless it has ended."""

    def __init__(self, directory: Path, address: str, *words: str, **variables: str) -> None:
        self.output = directory.with_suffix(".out")
        with open(self.output, "wb") as output:
            self.process = Process(
                [*SQLSTREAM, "taskmanager", "--join", address, "--slots", "1", *words],
                cwd=ROOT, env=environment(**variables), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def child(self) -> psutil.Process | None:
        return next(iter(children_of(self.process.pid)), None)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def vanish(self) -> None:
        """As a host does: nobody starts another."""
        child = self.child
        self.process.kill()
        if child is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


class Beginning:
    """A server that begins on a thread of its own: it is ready once it leads."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self._thread = threading.Thread(target=server.start, daemon=True)
        self._thread.start()

    def is_waiting(self) -> bool:
        return hasattr(self.server, "greeting") and any(
            "waits to take" in line for line in self.server.greeting
        )

    def leader(self) -> RunningServer:
        self._thread.join(200)
        assert not self._thread.is_alive()
        return self.server


@contextlib.contextmanager
def workers(
    directory: Path, address: str, count: int, *settings: str, **variables: str
) -> Iterator[list[Worker]]:
    """So many TaskManagers that join at `address`; `settings` say where the cluster's token is, beside the data directory. Those
    that are added to the list are ended too."""
    token = directory / "join-token"
    token.write_text(sqlstream("cluster", "token", "--data-dir", str(directory / "data"), *settings).stdout)
    started: list[Worker] = []
    try:
        for number in range(count):
            place = directory / f"worker{number}"
            started.append(Worker(place, address, "--token-file", str(token), **variables))
        yield started
    finally:
        for worker in started:
            children = children_of(worker.process.pid) if worker.process.poll() is None else []
            worker.process.kill()
            worker.process.wait()
            wait_until_ended(children)


def join_address(server: RunningServer) -> str:
    return next(line for line in server.greeting if "join at" in line).split()[2].rstrip(";")


def slots(server: RunningServer) -> int:
    return sum(found["slotsNumber"] for found in server.get("/taskmanagers")["taskmanagers"])


def parallelism(server: RunningServer, job: str) -> int:
    return max(int(vertex["parallelism"]) for vertex in server.get(f"/jobs/{job}")["vertices"])


def runs_with(server: RunningServer, job: str, count: int) -> bool:
    """Whether all tasks run, at this parallelism."""
    found = server.get(f"/jobs/{job}")
    states = {vertex["status"] for vertex in found["vertices"]}
    return parallelism(server, job) == count and states == {"RUNNING"}


def start_copy(
    server: RunningServer,
    directory: Path,
    *settings: str,
    rows: int = ENDLESS,
    query: str = "SELECT n FROM g",
    parallelism: int = 2,
    rate: int = RATE,
) -> str:
    """A job of two subtasks, or so many, that read `rate` rows a second together, so many in all, and hand them on by an exchange
    to one writer; its id. Nothing behind the exchange would hide a row that comes twice. `settings` are further statements."""
    session = server.open_session()
    for text in (
        *settings,
        f"SET 'parallelism.default' = '{parallelism}'",
        "SET 'execution.checkpointing.interval' = '300 ms'",
        "SET 'restart-strategy.type' = 'fixed-delay'",
        "SET 'restart-strategy.fixed-delay.attempts' = '100'",
        "SET 'restart-strategy.fixed-delay.delay' = '100 ms'",
        f"""CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}')""",
        f"""CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{directory / "out"}',
            'sink.parallelism' = '1')""",
    ):
        server.execute(session, text)
    return server.insert(session, f"INSERT INTO o {query}")


def finish_copy(server: RunningServer, job: str, directory: Path, rate: int = RATE) -> None:
    """End a copy of two subtasks where it is: each row that they have read is written once, and they have left none out."""
    count = server.finish(job)
    rows = written(directory)
    assert len(rows) == count
    check_first(rows, rate)


def check_first(rows: list[int], rate: int = RATE) -> None:
    """Two subtasks that read `rate` rows a second have left none out: they take turns."""
    turn = rows_at_tick(rate) // 2
    shares: tuple[list[int], list[int]] = [], []
    for row in rows:
        shares[(row - 1) // turn % 2].append(row)
    for number, share in enumerate(shares):
        all_rows = (row for row in itertools.count(1) if (row - 1) // turn % 2 == number)
        assert share == list(itertools.islice(all_rows, len(share)))


def writes_on(directory: Path) -> None:
    """Wait until more rows are there than now."""
    count = len(written(directory))
    wait_until(lambda: len(written(directory)) > count)


def written(directory: Path) -> list[int]:
    files = [p for p in (directory / "out").rglob("part-*") if ".staging" not in str(p)]
    return sorted(int(line) for p in files for line in p.read_text().split())
