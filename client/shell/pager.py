"""A pager for text that is longer than the screen."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import IO


def pager_command() -> list[str]:
    """The user's $PAGER, else less when there is one; empty for none (`PAGER=` or `PAGER=cat`)."""
    if (named := os.environ.get("PAGER")) is not None:
        try:
            words = shlex.split(named)
        except ValueError:
            return []
        return words if words and words != ["cat"] and shutil.which(words[0]) else []
    found = shutil.which("less")
    return [found] if found else []


@contextlib.contextmanager
def paged() -> Iterator[IO[str]]:
    """A stream whose text the pager shows; the block ends when the user leaves the pager, which may be before all is written.

    Long lines are cut and can be scrolled to, unless $LESS says otherwise. Ctrl-C is the pager's while it runs.
    """
    environment = {**os.environ, "LESS": os.environ.get("LESS", "-SFX"), "LESSSECURE": "1"}
    # A handler, and not SIG_IGN, which the pager would inherit.
    previous = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.Popen(
            pager_command(),
            stdin=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            try:
                yield process.stdin
            finally:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
