"""Three hosts with a server and a TaskManager each, one of which is killed, stopped or cut off every twenty seconds, and a job
that hands rows from one host to another into files."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from command_harness import SQLSTREAM, environment
from spark_harness.hosts import SHARED, Host, Hosts

NAMES = ("one", "two", "three")
EVERY_S = 20.0
BACK_AFTER_S = 3.0
ROWS_PER_S = 500
STUCK_S = 150.0
"""A job that has written nothing for so long, with all hosts up, writes no more."""

SHARE = 0.6
"""How much of the rows that the job would write alone it gets: it goes on behind the last fault."""
KINDS = ("killed host", "killed host", "killed host", "stopped host", "cut off host")
HIGH_AVAILABILITY = (
    "-D",
    "high-availability.type=filesystem",
    "-D",
    f"high-availability.storageDir={SHARED}/ha",
)
STATEMENTS = """
SET 'parallelism.default' = '2';
SET 'execution.files-are-shared' = 'true';
SET 'execution.checkpointing.interval' = '1 s';
SET 'execution.checkpointing.dir' = '{shared}/checkpoints';
SET 'restart-strategy.type' = 'fixed-delay';
SET 'restart-strategy.fixed-delay.attempts' = '100000';
SET 'restart-strategy.fixed-delay.delay' = '300 ms';
CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
    'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{shared}/out', 'sink.parallelism' = '1');
INSERT INTO o SELECT n FROM g;
"""


@dataclass
class HostsFigures:
    """What the hosts went through and what became of the rows. A pause is a time in which no row was committed."""

    rows: int
    faults: Counter[str] = field(default_factory=Counter)
    leaders: int = 0
    pauses_s: list[float] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0

    def lines(self) -> list[str]:
        pauses = sorted(self.pauses_s)
        middle = pauses[len(pauses) // 2] if pauses else 0.0
        return [
            *(f"{kind}: {count}" for kind, count in sorted(self.faults.items())),
            f"servers that took up the job: {self.leaders}",
            f"rows: {self.rows}, lost: {self.lost}, doubled: {self.doubled}",
            f"longest pause: {max(pauses, default=0.0):.1f} s, median of those after a fault: {middle:.1f} s",
        ]


class _Machine:
    """A host whose server and TaskManager start again when they end, as by a unit of systemd. State: the processes."""

    def __init__(self, host: Host, token: str) -> None:
        self.host = host
        self.token = token
        self.is_down = False
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def keep_up(self) -> None:
        """Start what has ended, unless the host is down."""
        if self.is_down:
            return
        for what, words in (("server", _server_words(self.host.name)), ("taskmanager", _worker_words())):
            running = self._running.get(what)
            if (running is None or running.poll() is not None) and (self.token or what == "server"):
                self._running[what] = self._start(what, words)

    def _start(self, what: str, words: list[str]) -> subprocess.Popen[bytes]:
        with open(self.host.own_tmp / f"{what}.log", "ab") as output:
            return subprocess.Popen(
                self.host.command(words),
                env=environment(SQLSTREAM_JOIN_TOKEN=self.token),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def each(self, number: int) -> None:
        for process in self.host.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def log(self) -> str:
        return (self.host.own_tmp / "server.log").read_text(errors="replace")

    def close(self) -> None:
        for running in self._running.values():
            running.kill()
            running.wait()


def _server_words(name: str) -> list[str]:
    settings = {
        "execution.target": "standalone",
        "jobmanager.rpc.address": name,
        "heartbeat.interval": "1 s",
        "heartbeat.timeout": "8 s",
    }
    words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    return [*SQLSTREAM, "server", "--data-dir", "/tmp/data", *words, *HIGH_AVAILABILITY]


def _worker_words() -> list[str]:
    doors = ",".join(f"{name}:6124" for name in NAMES)
    return [*SQLSTREAM, "taskmanager", "--join", doors, "--slots", "2"]


class HostsRun:
    def __init__(
        self, directory: Path, seed: int, seconds: float, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self._directory = directory
        self._draw = random.Random(seed)
        self._seconds = seconds
        self._say = say
        self._figures = HostsFigures(int(seconds * ROWS_PER_S * SHARE))
        self._bytes = 0
        self._grown_s = time.monotonic()

    def run(self) -> HostsFigures:
        self._directory.mkdir(parents=True, exist_ok=True)
        with Hosts(self._directory, *NAMES) as hosts, contextlib.ExitStack() as closing:
            machines = [_Machine(hosts[name], "") for name in NAMES]
            for machine in machines:
                closing.callback(machine.close)
                machine.keep_up()
            self._begin(hosts, machines)
            self._go(hosts, machines)
            self._end(hosts, machines)
        return self._figures

    def _begin(self, hosts: Hosts, machines: list[_Machine]) -> None:
        _wait(lambda: any("join at" in machine.log() for machine in machines), 120, "no server leads")
        leader = next(machine for machine in machines if "join at" in machine.log())
        token = _output(leader.host, "cluster", "token", "--data-dir", "/tmp/data", *HIGH_AVAILABILITY)
        for machine in machines:
            machine.token = token
            machine.keep_up()
        script = hosts.shared / "job.sql"
        text = STATEMENTS.format(shared=SHARED, rate=ROWS_PER_S // 2, rows=self._figures.rows)
        script.write_text(text)
        words = ("submit", "--server", "http://127.0.0.1:8083", "--detached", f"{SHARED}/job.sql")
        _output(leader.host, *words)
        _wait(lambda: self._has_grown(hosts), 120, "the job writes nothing")

    def _go(self, hosts: Hosts, machines: list[_Machine]) -> None:
        begun_s = time.monotonic()
        next_s = begun_s + EVERY_S / 2
        ends: list[tuple[float, Callable[[], None]]] = []
        while (now_s := time.monotonic()) < begun_s + self._seconds:
            for machine in machines:
                machine.keep_up()
            self._has_grown(hosts)
            for at_s, end in [e for e in ends if e[0] <= now_s]:
                ends.remove((at_s, end))
                end()
            if now_s >= next_s:
                next_s += EVERY_S
                ends.append(self._fault(hosts, self._draw.choice(machines), now_s))
            time.sleep(0.25)
        for _, end in ends:
            end()

    def _fault(self, hosts: Hosts, machine: _Machine, now_s: float) -> tuple[float, Callable[[], None]]:
        """Begin one; returns when it ends, and how."""
        kind = self._draw.choice(KINDS)
        name = machine.host.name
        self._figures.faults[kind] += 1
        if kind == "killed host":
            machine.is_down = True
            machine.each(signal.SIGKILL)
            lasts_s, end = BACK_AFTER_S, lambda: setattr(machine, "is_down", False)
        elif kind == "stopped host":
            machine.each(signal.SIGSTOP)
            lasts_s, end = self._draw.uniform(5, 25), lambda: machine.each(signal.SIGCONT)
        else:
            hosts.cut(name)
            lasts_s, end = self._draw.uniform(3, 15), lambda: hosts.mend(name)
        self._say(f"{kind} {name} for {lasts_s:.1f} s, {self._bytes:,} bytes so far")
        return now_s + lasts_s, end

    def _end(self, hosts: Hosts, machines: list[_Machine]) -> None:
        self._grown_s = time.monotonic()
        found: list[int] = []
        while len(found) < self._figures.rows and time.monotonic() < self._grown_s + STUCK_S:
            for machine in machines:
                machine.keep_up()
            self._has_grown(hosts)
            found = _rows(hosts)
            time.sleep(2)
        # Whatever would come twice would come now.
        time.sleep(5)
        found = _rows(hosts)
        there = set(found)
        self._figures.lost = self._figures.rows - len(there)
        self._figures.doubled = len(found) - len(there)
        self._figures.leaders = sum(machine.log().count("join at") for machine in machines)

    def _has_grown(self, hosts: Hosts) -> bool:
        size = sum(_size(path) for path in _parts(hosts))
        now_s = time.monotonic()
        has_grown = size > self._bytes
        if has_grown:
            # Every checkpoint is a pause of a second.
            if now_s - self._grown_s > 3:
                self._figures.pauses_s.append(now_s - self._grown_s)
            self._bytes, self._grown_s = size, now_s
        return has_grown


def _parts(hosts: Hosts) -> Iterator[Path]:
    return (p for p in (hosts.shared / "out").rglob("part-*") if ".staging" not in str(p))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _rows(hosts: Hosts) -> list[int]:
    return [int(line) for path in _parts(hosts) for line in path.read_text().split()]


def _output(host: Host, *words: str) -> str:
    done = subprocess.run(
        host.command([*SQLSTREAM, *words]),
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.strip()


def _wait(is_so: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline_s = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline_s, otherwise
        time.sleep(0.25)
