"""A TaskManager as a process: `python -P -m sqlstream.runtime.taskmanager`, options on standard input, which stays open
as long as the process that started it lives."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading

from sqlstream.errors import SqlStreamError, render_error
from sqlstream.runtime.host.process import forgo_pandas, ignore_interrupts
from sqlstream.runtime.host.process_end import leave
from sqlstream.runtime.taskmanager.task_manager_options import decode_options

STOP_TIMEOUT_S = 2.0
IDLE_CHECK_S = 10.0
"""How long a TaskManager without tasks keeps the memory that its last tasks freed, at least."""
SWITCH_INTERVAL_S = 0.0002
"""How long a thread may hold the interpreter's lock while another waits. A task releases it for every kernel, and some
kernels take 20 µs: with Python's default of 5 ms a task could wait longer for the lock than the kernel took."""


def main() -> int:
    """Run until standard input ends, a SIGTERM, or the TaskExecutor gives up; the exit code is 1 for the
    last."""
    ignore_interrupts()
    forgo_pandas()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # What loading creates is no garbage: no collection searches it, then or later.
    gc.disable()
    # Before the options are there: this process may be started before it is needed.
    from sqlstream.runtime.taskmanager.task_manager import TaskManager

    gc.freeze()
    gc.enable()
    line = sys.stdin.buffer.readline()
    if not line:
        # The process that started this one has ended already, or needs none.
        return 0
    options = decode_options(line)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    try:
        task_manager = TaskManager(options, over.set)
    except SqlStreamError as error:
        print(render_error(error), file=sys.stderr)
        return 1
    task_manager.start()
    abandoned = threading.Event()
    threading.Thread(target=_watch_parent, args=(abandoned, over), name="parent-watch", daemon=True).start()
    while not over.wait(IDLE_CHECK_S):
        task_manager.idle_memory.check()
    task_manager.stop(STOP_TIMEOUT_S, abandoned.is_set())
    return 1 if task_manager.failed else 0


def _watch_parent(abandoned: threading.Event, over: threading.Event) -> None:
    # Unbuffered: no thread may hold the lock of a buffered reader when the process ends.
    while os.read(0, 4096):
        continue
    abandoned.set()
    over.set()


if __name__ == "__main__":
    # After `main` only daemon threads are left, some of them inside the network library: a normal exit does
    # not wait for them.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    leave(code)
