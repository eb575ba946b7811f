"""A process that has loaded the modules of sqlstream, and forks a child for each command that it is asked for.

Run as `python fork_server.py DESCRIPTOR`; `forked_process.py` makes requests on that socket. It ends when the socket is closed,
so it does not outlive its parent. It has one thread, and its environment is its parent's. A command that may start TaskManagers
gets a fork server of its own, because it has threads and cannot fork."""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import os
import pkgutil
import re
import runpy
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from forked_process import (
    CHILDREN,
    FORK_SERVER,
    ForkServer,
    Request,
    fork_task_managers,
    packages_in,
    receive,
    send_process_id,
    use_fork_server,
)

STREAMS = 3
DESCRIPTORS_MAX = 1 << 16
DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a test sends to all processes of a command: a fork server ends with its parent."""

START = "sqlstream.client.start"
"""It sets up its process when it is imported: each child imports it anew."""

LEFT_OUT = re.compile(r"spark|bench|sqlalchemy|testing|__main__")
"""Modules of sqlstream whose commands are rare, or that are not there to be imported."""

LIBRARIES = (
    *("duckdb", "fastapi", "h11", "httpcore", "httpx", "numba", "numpy.ma", "pyarrow.csv", "pyarrow.flight"),
    *("pyarrow.json", "pyarrow.parquet", "sqlglot.dialects.duckdb", "uvicorn"),
    *("encodings.idna", "stringprep", "termios"),
)
"""What functions import when they are called."""

UNWANTED = ("pandas", "pyspark", "grpc")
"""They start threads, or the product takes care not to load them."""

FORKING_THREAD = "jemalloc_bg_thd"
"""The one that Arrow's library starts when it is loaded, and takes care of in a fork itself."""

STARTING_TASK_MANAGERS = frozenset({"run", "server", "shell", "taskmanager", "verify"})


def main(descriptor: int) -> None:
    """Load all, then answer requests until the socket is closed. Returns in a child, which goes on as the command."""
    _load()
    gc.collect()
    gc.freeze()
    request = _serve(socket.socket(fileno=descriptor))
    words = request.words
    if words[0] == "sqlstream" and (len(words) == 1 or words[1] in STARTING_TASK_MANAGERS):
        request = _with_fork_server(request)
    _be(request)


def _load() -> None:
    importlib.import_module(START)
    process = importlib.import_module("sqlstream.runtime.host.process")
    # As the command does.
    process.forgo_pandas()
    package = importlib.import_module("sqlstream")
    ours = (module.name for module in pkgutil.walk_packages(package.__path__, "sqlstream."))
    for name in (*(name for name in ours if not LEFT_OUT.search(name)), *LIBRARIES):
        importlib.import_module(name)
    process.permit_pandas()
    loaded = [name for name in UNWANTED if name in sys.modules]
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    assert loaded == []
    assert set(threads[1:]) <= {FORKING_THREAD}, threads


def _serve(asked: socket.socket) -> Request:
    """Fork for each request until the socket is closed, which ends the process. Returns in a child, with its request."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    while (request := receive(asked)) is not None:
        child = _fork_orphan()
        if child == 0:
            for number in DEAF_TO:
                signal.signal(number, signal.SIG_DFL)
            _take_streams(request)
            return request
        for stream in request.streams:
            os.close(stream)
        send_process_id(asked, child)
    os._exit(0)


def _fork_orphan() -> int:
    """Fork a child whose parent has ended when this returns: the process that asks, which adopts orphans meanwhile, becomes its
    parent. Returns the child's id, and 0 in the child."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            return 0
        os.write(write, b"%d" % child)
        os._exit(0)
    os.waitpid(between, 0)
    child = int(os.read(read, 20))
    os.close(read)
    os.close(write)
    return child


def _take_streams(request: Request) -> None:
    """Make the three streams this process's, close all other descriptors, and join the session and group that are asked for."""
    if request.is_session:
        os.setsid()
        if os.isatty(request.streams[0]):
            _take_terminal(request.streams[0])
    else:
        os.setpgid(0, request.group)
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
    os.closerange(STREAMS, DESCRIPTORS_MAX)


def _take_terminal(stream: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(stream, termios.TIOCSCTTY, 0)


def _with_fork_server(request: Request) -> Request:
    """Fork a fork server for the TaskManagers of this process. Returns in these with their requests, too."""
    asked, asking = socket.socketpair()
    if os.fork() == 0:
        asking.close()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(STREAMS):
            os.dup2(null, number)
        os.close(null)
        _show_command_line([FORK_SERVER])
        return _serve(asked)
    asked.close()
    use_fork_server(ForkServer(asking, request.environment))
    fork_task_managers()
    return request


def _be(request: Request) -> None:
    """Make of this fork what a Python process that has just started is."""
    os.umask(request.umask)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        before = getattr(sys, name)
        stream = open(number, mode, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115 (for good)
        if number == 2:
            stream.reconfigure(line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = list(request.words)
    directory = [request.directory] if request.imports_from_directory else []
    known = sys.path[1:]
    sys.path[:1] = [*directory, *(p for p in packages_in(request.environment) if p not in known)]
    _show_command_line([sys.executable, "-m", *request.words])
    importlib.invalidate_caches()
    sys.modules.pop(START)
    if CHILDREN in request.environment.get("PYTHONPATH", "").split(os.pathsep):
        sys.path.insert(0, CHILDREN)
        importlib.import_module("sitecustomize")
    sys.modules["__main__"] = ModuleType("__main__")
    gc.unfreeze()


def _show_command_line(words: list[str]) -> None:
    """Put the words where the system reads a process's command line: the fork server was started with room for them."""
    begin, end = _command_line()
    shown = b"".join(os.fsencode(word) + b"\0" for word in words)[: end - begin - 1]
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


@functools.cache
def _command_line() -> tuple[int, int]:
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


if __name__ == "__main__":
    main(int(sys.argv[1]))
    # What is in argv here is the child's.
    runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]
