"""The `sqlstream` command of this checkout as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 240
"""For a machine on which many other things run: what hangs is ended, what is slow is not."""

SQLSTREAM = (sys.executable, "-m", "sqlstream")


def environment(**others: str) -> dict[str, str]:
    """That of this process, in which the checkout's packages are found first."""
    around = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, around)]))
    return {**os.environ, "PYTHONPATH": path, **others}


def run_to_end(command: Sequence[str] | str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `options` are those of subprocess.run, `stdin` a text that the command reads."""
    return subprocess.run(
        command,
        cwd=options.pop("cwd", ROOT),
        env=options.pop("env", environment()),
        input=options.pop("stdin", None),
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        **options,
    )


def sqlstream(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the `sqlstream` command to its end."""
    return run_to_end([*SQLSTREAM, *words], **options)
