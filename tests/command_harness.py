"""The `sqlstream` command of this checkout as a process of its own, and what every harness of processes holds at its end."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from forked_process import ROOT, Process, children_of, environment, task_managers_of
from spark_harness.processes import is_gone, wait_until

__all__ = [
    "ROOT",
    "SQLSTREAM",
    "TIMEOUT_S",
    "Process",
    "WholeEnd",
    "children_of",
    "environment",
    "free_port",
    "run_to_end",
    "sqlstream",
    "task_managers_of",
    "wait_until_ended",
]

TIMEOUT_S = 240
"""For a machine on which many other things run: what hangs is ended, what is slow is not."""

SQLSTREAM = (sys.executable, "-m", "sqlstream")

PORTS = range(15_000, 32_768)
"""Below those that Linux gives to whoever asks for any: such a port may be taken before it is used, or while its server is
down."""

TRACEBACK = "Traceback (most recent call last)"
SENT = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGPIPE, signal.SIGTERM)
"""Signals by which a process ends because a test wants it."""


class WholeEnd:
    """What a harness of processes holds at its end: no process has crashed, standard error has no traceback, no child runs, no
    file is left in the directory of temporary files, and this process has closed its ends of pipes and terminals.

    State: that directory, and the pipes and terminals that were open before, and that the harness has opened."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="c"))
        self._before = _streams()
        self._opened: set[str] = set()

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """With a directory of temporary files that is the harness's alone, unless the test gives another."""
        is_ours = variables.get("TMPDIR") == os.environ.get("TMPDIR")
        return {**variables, "TMPDIR": str(self._directory)} if is_ours else dict(variables)

    def begin(self) -> None:
        """Its processes have been started."""
        self._opened = _streams() - self._before

    def check(self, returncode: int, errors: str, children: Iterable[psutil.Process] = ()) -> None:
        wait_until_ended(children)
        # `walk` passes over a directory that a process removes meanwhile.
        left = sorted(
            os.path.join(at, name) for at, below, files in os.walk(self._directory) for name in below + files
        )
        shutil.rmtree(self._directory, ignore_errors=True)
        assert returncode >= 0 or -returncode in SENT, f"{returncode}: {errors}"
        assert TRACEBACK not in errors, errors
        # What is killed leaves its files to the next start.
        assert returncode < 0 or left == []
        assert self._opened & _streams() == set()


def _streams() -> set[str]:
    """The pipes and terminals that this process has open."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(descriptor))
    return {target for target in found if target.startswith(("pipe:", "/dev/ptmx", "/dev/pts"))}


def wait_until_ended(processes: Iterable[psutil.Process], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until none of these processes runs: what has adopted them may take its time to wait for them."""
    ended = list(processes)
    wait_until(lambda: all(map(is_gone, ended)), timeout_s)


def run_to_end(command: Sequence[str] | str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `options` are those of subprocess.run, `stdin` a text that the command reads, and
    `shows_traceback` that it tells one of a process that it has started."""
    text = options.pop("stdin", None)
    shows_traceback = options.pop("shows_traceback", False)
    end = WholeEnd()
    with Process(
        command,
        cwd=options.pop("cwd", ROOT),
        env=end.environment(options.pop("env", environment())),
        stdin=None if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        end.begin()
        try:
            written, errors = process.communicate(text, TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    end.check(process.returncode, "" if shows_traceback else errors)
    return subprocess.CompletedProcess(process.args, process.returncode, written, errors)


def sqlstream(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `sqlstream` command to its end."""
    return run_to_end([*SQLSTREAM, *words], **options)


def free_port() -> int:
    """A port of loopback for one server, also for its next starts."""
    while True:
        # Not of `random`, which Hypothesis sets to the same in all processes.
        port = secrets.choice(PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
