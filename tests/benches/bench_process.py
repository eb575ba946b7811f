"""A process of a benchmark, which answers each line that it is told with one line of JSON."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from sqlstream.errors import FailureReason, JobError

STOP_TIMEOUT_S = 30.0

_TESTS = Path(__file__).parents[1]
_PATH = os.pathsep.join([str(_TESTS), str(_TESTS.parent)])
"""Where the process finds these modules and those of sqlstream."""


class BenchProcess:
    """Runs a module, without the settings of this machine's configuration, which are not what is measured.

    State: the process, until `close`; it ends as well when this process does."""

    def __init__(self, module: str, label: str, arguments: tuple[str, ...] = ()) -> None:
        """`label` says in an error what the process does."""
        self._label = label
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("SQLSTREAM_")},
                "PYTHONPATH": _PATH,
            },
            text=True,
        )

    def tell(self, line: str) -> None:
        """That the process has ended is told by the next `answer`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def answer(self, kind: type[Any]) -> Any:
        """Its next line. JobError SS6063 when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return msgspec.json.decode(line, type=kind)
        raise JobError(
            "SS6063",
            f"{self._label} has ended with code {self._process.wait()}",
            reason=FailureReason.INTERNAL,
        )

    def close(self) -> None:
        """End the process and all that it has started. Harmless when repeated."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
