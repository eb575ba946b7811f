"""What the comparison asks of an engine, and the child process through which it asks."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
from peers.install import PeerError
from peers.queries import Query

DRIVERS = Path(__file__).resolve().parent / "drivers"
_STOP_TIMEOUT_S = 15


@dataclass(frozen=True)
class Run:
    """One job, from its submission to its end: seconds on the clock, and of CPU over all the engine's processes."""

    wall_s: float
    cpu_s: float


class Engine(Protocol):
    """An engine that is up. `setup` says in a few words how it is run, for the report."""

    name: str
    version: str
    setup: str

    def run(self, query: Query, bids: Path, timeout_s: float) -> Run:
        """Answer the query over a directory of bids into the sink that costs the least."""

    def totals(self, query: Query, bids: Path, timeout_s: float) -> list[int]:
        """Answer the query, and what its rows add up to."""

    def stop(self) -> None:
        """End everything that was started; harmless when repeated."""


class Child:
    """A process that is ended with all its children, by id, whether it listens or not."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], log: Path, **streams: Any
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("ab") as output:
            # A session of its own: Ctrl-C reaches the comparison alone, which then stops what it started, in order.
            self.process = subprocess.Popen(
                command,
                env=environment,
                stderr=output,
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, "stdout": output, **streams},
            )

    def cpu_seconds(self) -> float:
        """Of the process and its running descendants, since each began."""
        total = 0.0
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def log_end(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def stop(self) -> None:
        family = self._family()
        for signal in ("terminate", "kill"):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    getattr(process, signal)()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_TIMEOUT_S)
            _, family = psutil.wait_procs(family, _STOP_TIMEOUT_S)
            if not family:
                return

    def _family(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


class Driver:
    """A child that answers requests, a JSON object a line, one at a time."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self._name = name
        self.child = Child(
            command, environment, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer; PeerError when the child fails, ends, or does not answer in time."""
        stdin = self.child.process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self._name} has ended: {self.child.log_end()}") from None
        answer = json.loads(self._line(timeout_s))
        if "error" in answer:
            raise PeerError(f"{self._name}: {answer['error']}")
        assert isinstance(answer, dict)
        return answer

    def stop(self) -> None:
        """Let it end by itself, and make it end if it does not."""
        stdin = self.child.process.stdin
        if stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.process.wait(_STOP_TIMEOUT_S)
        self.child.stop()

    def _line(self, timeout_s: float) -> str:
        stdout = self.child.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                # Its answer would be taken for that to the next request.
                self.child.stop()
                raise PeerError(f"{self._name} gave no answer within {timeout_s:.0f} s")
        line: str = stdout.readline()
        if not line:
            raise PeerError(f"{self._name} has ended: {self.child.log_end()}")
        return line
