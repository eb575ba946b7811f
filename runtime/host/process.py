"""Processes of this machine: starting children that cannot outlive their parent, and what processes cost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlstream

_TASK_LIBRARY_THREADS = 1
_TASK_IO_THREADS = 2


class _NoPandas:
    """Answers a search for pandas as an empty installation would: a finder of modules, without the base class, which takes 7 ms
    to import. No state."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


def import_root() -> str:
    """The directory from which this process imports our package."""
    return str(Path(sqlstream.__file__).resolve().parent.parent)


def start_python_module(
    module: str, arguments: list[str], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start `python -P -m module` with a pipe to its input, and one from its output and errors.

    The child sees the end of its input when this process dies, however it dies. `-P` keeps the directory
    where the user happens to be off the import path, so the packages' own directory is put there by name."""
    path = os.pathsep.join(p for p in (import_root(), os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        close_fds=True,
        # Ctrl-C is for the parent alone, also before the child has set its signal handlers.
        process_group=0,
    )


def open_missing_streams() -> None:
    """Open the standard streams that this process was started without (`>&-`) on the null device. Otherwise the next files
    opened would take their descriptors."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 (open for good)
            setattr(sys, name, stream)


def hush(*libraries: str) -> None:
    """Have libraries whose failures are raised as our errors print nothing to the terminal of a command, which has no log. Levels
    that are set stay."""
    import logging

    for name in libraries:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


def ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; a child leaves the decision to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def limit_library_threads() -> None:
    """Leave Arrow one thread to compute with, in a process whose unit of parallelism is the task thread."""
    import pyarrow as pa

    pa.set_cpu_count(_TASK_LIBRARY_THREADS)
    pa.set_io_thread_count(_TASK_IO_THREADS)


class LibraryThreadLimit:
    """`limit_library_threads` for as long as one of the holders in this process needs it. Thread-safe.

    State: the number of holders, and the sizes of Arrow's pools that are restored when the last one goes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before = (0, 0)

    def hold(self) -> None:
        import pyarrow as pa

        with self._lock:
            if self._holders == 0:
                self._before = (pa.cpu_count(), pa.io_thread_count())
                limit_library_threads()
            self._holders += 1

    def release(self) -> None:
        """Once per `hold`."""
        import pyarrow as pa

        with self._lock:
            assert self._holders > 0
            self._holders -= 1
            if self._holders == 0:
                pa.set_cpu_count(self._before[0])
                pa.set_io_thread_count(self._before[1])


LIBRARY_THREAD_LIMIT = LibraryThreadLimit()


def forgo_pandas() -> None:
    """Make pandas look absent in this process: Arrow loads it, where it is installed, with the first list it
    converts, which takes as long as the whole start of a TaskManager and serves no task."""
    sys.meta_path.insert(0, _NoPandas())


def forgo_pandas_once() -> None:
    """`forgo_pandas`, for code that a process calls more than once."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        forgo_pandas()


def permit_pandas() -> None:
    """Undo `forgo_pandas`, for a library that does not run without it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _NoPandas)]


def give_back_memory() -> None:
    """Return to the system what this process has freed and its allocators have kept."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Only glibc has it; other C libraries keep less.
    if trim is not None:
        trim(0)


def cpu_seconds(process_id: int) -> float:
    """User and system time of a process, 0 when it has ended."""
    if process_id == os.getpid():
        return time.process_time()
    if sys.platform == "linux":
        # clock_getcpuclockid(3), which Python does not have: what psutil reads there goes in steps of 10 ms.
        with contextlib.suppress(OSError):
            return time.clock_gettime(~process_id << 3 | 2)
    import psutil

    try:
        times = psutil.Process(process_id).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def peak_rss_bytes(process_id: int) -> int:
    """The peak memory of a process, 0 when it has ended."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return _rss_bytes(process_id)
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _rss_bytes(process_id: int) -> int:
    import psutil

    try:
        return int(psutil.Process(process_id).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


class ProcessUsage:
    """What a cluster costs: CPU time since it was made, and peak memory, of this process and its children. Thread-safe.

    `children` names those that run. A child that ends counts as far as it was measured: `measure` is called before one is
    released. State: the latest figures of each process that runs, and the sums of those that have ended.
    """

    def __init__(self, children: Callable[[], tuple[int, ...]]) -> None:
        self._children = children
        self._used_before_s = cpu_seconds(os.getpid())
        self._figures: dict[int, tuple[float, int]] = {}
        self._ended_cpu_s, self._ended_peak_bytes = 0.0, 0
        self._lock = threading.Lock()

    def cpu_seconds(self) -> float:
        with self._lock:
            self._measure()
            return self._ended_cpu_s + sum(cpu_s for cpu_s, _ in self._figures.values()) - self._used_before_s

    def peak_rss_bytes(self) -> int:
        with self._lock:
            self._measure()
            return self._ended_peak_bytes + sum(peak for _, peak in self._figures.values())

    def measure(self) -> None:
        with self._lock:
            self._measure()

    def _measure(self) -> None:
        running = (os.getpid(), *self._children())
        for process_id in self._figures.keys() - set(running):
            # Its number may become that of another one.
            cpu_s, peak = self._figures.pop(process_id)
            self._ended_cpu_s, self._ended_peak_bytes = (
                self._ended_cpu_s + cpu_s,
                self._ended_peak_bytes + peak,
            )
        for process_id in running:
            cpu_s, peak = self._figures.get(process_id, (0.0, 0))
            self._figures[process_id] = (
                max(cpu_s, cpu_seconds(process_id)),
                max(peak, peak_rss_bytes(process_id)),
            )


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
