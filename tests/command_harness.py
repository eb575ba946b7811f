"""The `sqlstream` command of this checkout as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from forked_process import ROOT, Process, children_of, environment

__all__ = [
    "ROOT",
    "SQLSTREAM",
    "TIMEOUT_S",
    "Process",
    "children_of",
    "environment",
    "run_to_end",
    "sqlstream",
]

TIMEOUT_S = 240
"""For a machine on which many other things run: what hangs is ended, what is slow is not."""

SQLSTREAM = (sys.executable, "-m", "sqlstream")


def run_to_end(command: Sequence[str] | str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `options` are those of subprocess.run, `stdin` a text that the command reads."""
    text = options.pop("stdin", None)
    with Process(
        command,
        cwd=options.pop("cwd", ROOT),
        env=options.pop("env", environment()),
        stdin=None if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            written, errors = process.communicate(text, TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, written, errors)


def sqlstream(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `sqlstream` command to its end."""
    return run_to_end([*SQLSTREAM, *words], **options)
