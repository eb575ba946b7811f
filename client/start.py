"""Where the `sqlstream` command starts: importing this is the first thing that its process does."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the half of `signal` that is built in: no file is loaded
import gc
import os

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Python would answer Ctrl-C with a traceback of whatever it is loading. Until the command has something to clean up,
    # and `client.main` a handler, the system's way is better: the process is gone. What is ignored (nohup) stays ignored.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

# Nothing here multiplies matrices; the threads that numpy would start for it cost more than the rest of its import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The thousands of functions and classes that loading makes are no garbage: looking for some time and again finds nothing.
gc.set_threshold(50_000, 20, 100)


def command() -> None:
    """The whole process of the `sqlstream` command; never returns."""
    from client import main

    main.command()
