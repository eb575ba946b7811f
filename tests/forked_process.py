"""`Process`: as subprocess.Popen, but a `sqlstream` command is forked from a process that has loaded its modules."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.util
import inspect
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]

FORKED = (
    (sys.executable, "-m", "sqlstream"),
    (sys.executable, "-P", "-m", "sqlstream.runtime.taskmanager"),
)
"""How commands begin that are forked."""

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "NUMBA_", "OMP_", "ARROW_")
"""What begins the names of variables that Python or a library reads while it is loaded. Those of allocators do not matter: a
fork keeps its parent's."""

FORK_SERVER = "fork_server.py"

CHILDREN = str(ROOT / "tests" / "children")
"""The directory of a `sitecustomize` module that takes nothing away from what is loaded: a fork loads it."""

_AT_START = dict(os.environ)
_COMMAND_LINE_ROOM = "-" * 2_000
_LENGTH = struct.Struct("<I")
_PR_SET_CHILD_SUBREAPER = 36
_POPEN_OPTIONS = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]


def environment(**others: str) -> dict[str, str]:
    """That of this process, in which the checkout's packages are found first."""
    return {**_with_packages(os.environ), **others}


def _with_packages(variables: Mapping[str, str]) -> dict[str, str]:
    around = variables.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, around)]))
    return {**variables, "PYTHONPATH": path}


@dataclass(frozen=True)
class Request:
    """A command, the module's name first, and where it runs. Its streams are descriptors."""

    words: tuple[str, ...]
    imports_from_directory: bool
    directory: str
    environment: dict[str, str]
    umask: int
    group: int
    is_session: bool
    streams: list[int] = field(default_factory=list)


class ForkServer:
    """The asking side of a fork server whose environment is `environment`. Thread-safe."""

    def __init__(self, asking: socket.socket, environment: dict[str, str]) -> None:
        self.environment = environment
        self._asking = asking
        self._lock = threading.Lock()

    def fork(self, request: Request, streams: list[int]) -> int:
        """Have a command started as a child of this process; its process id."""
        body = pickle.dumps(request)
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._asking, [_LENGTH.pack(len(body))], streams)
                self._asking.sendall(body)
                answer = self._asking.recv(_LENGTH.size)
            finally:
                prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answer, "the fork server has ended"
        return int(_LENGTH.unpack(answer)[0])


def receive(asked: socket.socket) -> Request | None:
    """The next request, with its streams; None when there are no more."""
    header, streams, _, _ = socket.recv_fds(asked, _LENGTH.size, 3)
    if not header:
        return None
    (length,) = _LENGTH.unpack(header)
    body = b""
    while len(body) < length:
        body += asked.recv(length - len(body))
    request: Request = pickle.loads(body)
    request.streams.extend(streams)
    return request


def send_process_id(asked: socket.socket, child: int) -> None:
    asked.sendall(_LENGTH.pack(child))


_servers: list[ForkServer] = []
"""At most one: the fork server of this process."""


def use_fork_server(server: ForkServer) -> None:
    _servers[:] = [server]


def _fork_server() -> ForkServer:
    if not _servers:
        use_fork_server(_started())
    return _servers[0]


def _started() -> ForkServer:
    asked, asking = socket.socketpair()
    variables = _with_packages(_AT_START)
    with asked:
        process = subprocess.Popen(
            [
                *(sys.executable, str(Path(__file__).with_name(FORK_SERVER))),
                *(str(asked.fileno()), _COMMAND_LINE_ROOM),
            ],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[asked.fileno()],
            process_group=0,
        )

    def end() -> None:
        asking.close()
        process.wait()

    atexit.register(end)
    return ForkServer(asking, variables)


def children_of(process_id: int) -> list[psutil.Process]:
    """All processes below this one that the command has started and that run, without the fork servers of our own."""
    return [p for p in psutil.Process(process_id).children(recursive=True) if _is_of_the_command(p)]


def task_managers_of(process_id: int) -> list[psutil.Process]:
    """Those of them that are TaskManagers: a command has other children for moments, too."""
    found = []
    for child in children_of(process_id):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "sqlstream.runtime.taskmanager" in child.cmdline():
                found.append(child)
    return found


def _is_of_the_command(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
        # One that has ended has no words, and neither has one for a moment that begins another program.
        has_ended = not words and process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    return not has_ended and not any(word.endswith(FORK_SERVER) for word in words)


class Process(subprocess.Popen[Any]):
    """A child process. One that runs the `sqlstream` command with nothing unusual about it (see `_request`) is forked, in a
    twentieth of the time."""

    def _execute_child(self, *given: Any) -> None:
        options = dict(zip(_POPEN_OPTIONS, given, strict=True))
        request = _request(options)
        if request is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = [
            (options["p2cread"], options["p2cwrite"]),
            (options["c2pwrite"], options["c2pread"]),
            (options["errwrite"], options["errread"]),
        ]
        streams = [theirs if theirs != -1 else number for number, (theirs, _) in enumerate(pipes)]
        self.pid = _fork_server().fork(request, streams)
        self._child_created = True
        null = getattr(self, "_devnull", None)
        closed = {theirs for theirs, ours in pipes if -1 not in (theirs, ours)} | {null}
        for descriptor in closed - {None}:
            os.close(descriptor)
        self._closed_child_pipe_fds = True


def fork_task_managers() -> None:
    """Have the product fork its TaskManagers in this process, too."""
    started = importlib.import_module("sqlstream.runtime.host.process")
    started.subprocess = SimpleNamespace(Popen=Process, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)


def _request(options: dict[str, Any]) -> Request | None:
    """None when a process is not to be forked: it is not one of ours, its options ask for more than a fork can do, or what is
    read while modules load is not what the fork server has read."""
    words = options["args"]
    begins = [begin for begin in FORKED if tuple(words[: len(begin)]) == begin]
    unusual = ("preexec_fn", "pass_fds", "shell", "startupinfo", "gids", "executable")
    directory = os.path.abspath(options["cwd"] or ".")
    if (
        not begins
        or any(options[name] for name in unusual)
        or any(options[name] is not None for name in ("gid", "uid"))
        or options["umask"] != -1
        or not options["restore_signals"]
        or not os.path.isdir(directory)
    ):
        return None
    variables = {os.fsdecode(k): os.fsdecode(v) for k, v in (options["env"] or os.environ).items()}
    if _read_at_start(variables) != _read_at_start(_fork_server().environment):
        return None
    group = options["process_group"]
    return Request(
        words=tuple(os.fspath(word) for word in words[len(begins[0]) - 1 :]),
        imports_from_directory="-P" not in begins[0],
        directory=directory,
        environment=variables,
        umask=_umask(),
        group=os.getpgid(0) if group == -1 else group,
        is_session=options["start_new_session"],
    )


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in variables.items() if name.startswith(READ_AT_START)}
    return {**found, "PYTHONPATH": os.pathsep.join(p for p in packages_in(variables) if not _is_new(p))}


def packages_in(variables: Mapping[str, str]) -> list[str]:
    """The directories of PYTHONPATH, without those that each fork has."""
    path = dict.fromkeys(variables.get("PYTHONPATH", "").split(os.pathsep))
    return [part for part in path if part not in ("", CHILDREN, str(ROOT))]


def _is_new(directory: str) -> bool:
    """Whether there is nothing in it that Python reads at its start, or that is hidden by what a fork may have loaded."""
    entries = Path(directory).iterdir() if Path(directory).is_dir() else ()
    names = {entry.name.partition(".")[0] for entry in entries if entry.suffix != ".dist-info"}
    return not any("customize" in name or importlib.util.find_spec(name) for name in names - {""})


def _umask() -> int:
    """Read from a file, as to ask the system for it is to change it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)
