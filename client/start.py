"""The entry point of the `sqlstream` command, imported before everything else."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the half of `signal` that is built in: no file is loaded
import gc
import os

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Python would answer Ctrl-C with a traceback of whatever it is loading. The system's default ends the process without
    # one, and is right until the command has something to clean up and `sqlstream.client.main` a handler. An ignored
    # signal (nohup) stays ignored.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

# numpy would start threads for matrix products, which nothing here computes; they cost more than the rest of its import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What loading and a first statement create (140,000 objects) is no garbage: collections would search it in vain.
gc.set_threshold(200_000, 20, 100)


def command() -> None:
    """The whole process of the `sqlstream` command; never returns."""
    from sqlstream.client import main

    main.command()
