"""`make demo-cluster`: two servers of which one leads, two TaskManagers and a job, whose leader is killed: rows go on, each once.

Each has a host of its own, a network of this machine with an address and a /tmp, where root may make networks; else all are
processes of this machine."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SQLSTREAM = [sys.executable, "-P", "-m", "sqlstream"]
sys.path.insert(0, str(ROOT / "tests"))

from spark_harness.hosts import SHARED, Hosts, why_there_are_no_hosts  # noqa: E402

HEADS, WORKERS = ("head1", "head2"), ("worker1", "worker2")
ROWS, ROWS_PER_S = 9_000, 500
ROWS_BEFORE_THE_KILL = 1_500
WAIT_S = 60.0
JOB = """
SET 'parallelism.default' = '2';
SET 'execution.files-are-shared' = 'true';
SET 'execution.checkpointing.interval' = '300 ms';
SET 'execution.checkpointing.dir' = '{shared}/checkpoints';
SET 'restart-strategy.type' = 'fixed-delay';
SET 'restart-strategy.fixed-delay.attempts' = '100';
SET 'restart-strategy.fixed-delay.delay' = '200 ms';
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{half}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}', 'number-of-rows' = '{rows}');
CREATE TABLE copies (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{shared}/copies',
  'sink.parallelism' = '1');
INSERT INTO copies SELECT n FROM numbers;
"""


class Place:
    """Where a process of the cluster runs: the words before its command, its own directory, its name, and that of the directory
    that all share, as it sees it. Ports differ where all are on one machine."""

    def __init__(
        self, name: str, prefix: Sequence[str], own: Path, shared: Path, address: str, port: int
    ) -> None:
        self.name, self.prefix, self.own, self.shared = name, list(prefix), own, shared
        self.address, self.port = address, port

    @property
    def is_host(self) -> bool:
        return bool(self.prefix)

    def server_words(self) -> list[str]:
        settings = {
            "execution.target": "standalone",
            "high-availability.type": "filesystem",
            "high-availability.storageDir": f"{self.shared}/sqlstream",
            "high-availability.lease-duration": "3 s",
            "jobmanager.rpc.address": self.address,
            "jobmanager.join.port": str(self.port + 1),
            "heartbeat.interval": "1 s",
        }
        if self.is_host:
            # Beyond loopback a token is required.
            for endpoint in ("sql-gateway.endpoint.rest", "rest"):
                settings |= {f"{endpoint}.address": self.address, f"{endpoint}.bind-address": "0.0.0.0"}
        words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        return ["server", "--port", str(self.port), "--data-dir", f"{self.data}", *words]

    @property
    def data(self) -> str:
        return "/tmp/data" if self.is_host else str(self.own / "data")

    @property
    def join_address(self) -> str:
        return f"{self.address}:{self.port + 1}"


class Cluster:
    """The processes, from `with` to its end, when all are killed that still run; each writes into a file of `directory`."""

    def __init__(self, places: dict[str, Place], shared: Path, directory: Path) -> None:
        self.places, self.shared, self.directory = places, shared, directory
        heads = [places[name] for name in HEADS]
        self.url = "http://" + ",".join(f"{head.address}:{head.port}" for head in heads)
        self.join = ",".join(head.join_address for head in heads)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *ignored: object) -> None:
        # TaskManagers first: they would start others in the place of those that are gone.
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with open(self.directory / f"{name}.log", "ab") as output:
            process = subprocess.Popen(
                [*self.places[name].prefix, *SQLSTREAM, *words],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def run(self, *words: str, at: str = WORKERS[0]) -> str:
        """What a command prints; SystemExit when it fails."""
        done = subprocess.run(
            [*self.places[at].prefix, *SQLSTREAM, *words],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        if done.returncode:
            raise SystemExit(f"sqlstream {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        found = {key: value for key, value in os.environ.items() if not key.startswith("SQLSTREAM_")}
        return {**found, "XDG_STATE_HOME": str(self.directory / "state"), "SQLSTREAM_URL": self.url}

    def log_has(self, name: str, text: str) -> bool:
        return text in (self.directory / f"{name}.log").read_text(errors="replace")

    def client_words(self) -> list[str]:
        """Where a token is required: the first, which the servers share."""
        path = self.places[HEADS[0]].shared / "sqlstream" / "default" / "token"
        return ["--token-file", str(path)] if self.places[HEADS[0]].is_host else []

    def rows(self) -> list[int]:
        files = [p for p in (self.shared / "copies").rglob("part-*") if ".staging" not in str(p)]
        return [int(line) for path in files for line in path.read_text().split()]


def wait_until(holds: Callable[[], object], what: str) -> float:
    """How long it took. SystemExit when it takes too long."""
    begun_s = time.monotonic()
    while not holds():
        if time.monotonic() - begun_s > WAIT_S:
            raise SystemExit(f"{what}: not within {WAIT_S:g} s")
        time.sleep(0.1)
    return time.monotonic() - begun_s


def say(text: str) -> None:
    print(text, flush=True)


def show(cluster: Cluster) -> int:
    say("1. Two servers share a directory: head1 leads, head2 waits to take its place")
    leader = cluster.start("head1", *cluster.places["head1"].server_words())
    wait_until(lambda: cluster.log_has("head1", "Try:"), "head1 leads")
    cluster.start("head2", *cluster.places["head2"].server_words())
    wait_until(lambda: cluster.log_has("head2", "waits to take"), "head2 waits")

    say(f"2. Two TaskManagers join: sqlstream taskmanager --join {cluster.join}")
    head = cluster.places["head1"]
    shared = [word for word in head.server_words() if word.startswith("high-availability")]
    token = cluster.run("cluster", "token", "--data-dir", head.data, *_settings(shared), at="head1")
    for name in WORKERS:
        path = cluster.places[name].own / "join-token"
        path.touch(0o600)
        path.write_text(token)
        seen = "/tmp/join-token" if head.is_host else str(path)
        cluster.start(name, "taskmanager", "--join", cluster.join, "--token-file", seen, "--slots", "1")

    say(
        f"3. A job writes the numbers 1 to {ROWS}: sqlstream submit --detached copies.sql --server {cluster.url}"
    )
    script = cluster.shared / "copies.sql"
    script.write_text(JOB.format(shared=head.shared, half=ROWS_PER_S // 2, rows=ROWS))
    cluster.run("submit", "--detached", str(head.shared / "copies.sql"), *cluster.client_words())
    wait_until(lambda: len(cluster.rows()) >= ROWS_BEFORE_THE_KILL, "rows come")
    say(f"   {len(cluster.rows())} rows are written")

    say(f"4. kill -9 {leader.pid}: head1, which leads, is gone")
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    killed_s, before = time.monotonic(), len(cluster.rows())
    wait_until(lambda: cluster.log_has("head2", "Try:"), "head2 leads")
    say(
        f"   head2 leads after {time.monotonic() - killed_s:.1f} s, of which 3 s are the lease; {before} rows are written"
    )
    wait_until(lambda: len(cluster.rows()) > before, "rows go on")
    say(f"   rows go on after {time.monotonic() - killed_s:.1f} s")

    say("5. The same command asks the server that leads now: sqlstream jobs")
    say(_indented(cluster.run("jobs", *cluster.client_words())))
    wait_until(lambda: len(cluster.rows()) >= ROWS, "all rows are written")
    rows = sorted(cluster.rows())
    is_whole = rows == list(range(1, ROWS + 1))
    say(f"6. {len(rows)} rows are written, {len(set(rows))} different ones from {rows[0]} to {rows[-1]}")
    say("   no row is lost or doubled" if is_whole else "   ROWS ARE LOST OR DOUBLED")
    return 0 if is_whole else 1


def _settings(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in ("-D", word)]


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.rstrip().splitlines()).rstrip("\n")


@contextlib.contextmanager
def places_of(directory: Path, is_loopback: bool) -> Iterator[tuple[dict[str, Place], Path]]:
    """The place of each process, and the shared directory as this process sees it."""
    why_not = "as asked" if is_loopback else why_there_are_no_hosts()
    if why_not:
        say(f"All are processes of this machine ({why_not}).")
        shared = directory / "shared"
        places = {}
        for name in (*HEADS, *WORKERS):
            own = directory / name
            own.mkdir()
            places[name] = Place(name, (), own, shared, "127.0.0.1", _free_port())
        shared.mkdir()
        yield places, shared
        return
    with Hosts(directory, *HEADS, *WORKERS) as hosts:
        say("Each has a host of its own: " + ", ".join(f"{host.name} {host.address}" for host in hosts))
        yield (
            {h.name: Place(h.name, h.command([]), h.own_tmp, SHARED, h.name, 8083) for h in hosts},
            hosts.shared,
        )


def _free_port() -> int:
    """One with a free one behind it."""
    while True:
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", first.getsockname()[1] + 1))
            return int(first.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loopback", action="store_true", help="make no networks")
    is_loopback = parser.parse_args().loopback
    begun_s = time.monotonic()
    # Whoever interrupts it leaves nothing behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="demo-cluster-"))
    try:
        with (
            places_of(directory, is_loopback) as (places, shared),
            Cluster(places, shared, directory) as cluster,
        ):
            try:
                code = show(cluster)
            except SystemExit as error:
                logs = [f"== {path.name}\n{path.read_text()[-3000:]}" for path in directory.glob("*.log")]
                print(error, *logs, sep="\n", file=sys.stderr)
                code = 1
            say("7. All processes end")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    say(f"It took {time.monotonic() - begun_s:.0f} s.")
    return code


if __name__ == "__main__":
    sys.exit(main())
