"""Where the processes of a cluster on one machine listen: Unix sockets in a directory that no other user may enter."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import urllib.parse
from contextlib import suppress

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.random import random_id

SOCKET_PATH_BYTES_MAX = 103
"""The longest socket path, in bytes, that every supported system accepts."""

_SCHEME = "unix:"
_NAME_CHARACTERS = 8
_PREFIX = "sqlstream-"
_DIRECTORY = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")

YOUNG_S = 60.0
"""A directory that is empty for so long will get no sockets."""


def make_socket_directory() -> str:
    """Create a directory that only this user may enter, below that for temporary files, or below /tmp when the path would
    be too long for sockets. ExternalError SS6013 when neither is possible. What killed processes of this user have left there is
    removed."""
    for parent in (None, "/tmp"):
        remove_dead_directories(parent or tempfile.gettempdir())
        try:
            directory = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        except OSError as error:
            reason = str(error)
            continue
        if len(os.fsencode(directory)) + 1 + _NAME_CHARACTERS <= SOCKET_PATH_BYTES_MAX:
            return directory
        os.rmdir(directory)
        reason = f'the path "{directory}" is too long'
    raise ExternalError("SS6013", f"could not make a directory for the sockets of the cluster: {reason}")


def hold(directory: str, *, waits: bool = True) -> int:
    """Lock a directory until the file with this number is closed, at the latest when this process ends, however it does. OSError
    if somebody else holds it, unless this one `waits`."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        raise
    return number


class OwnDirectory:
    """A directory for sockets that this process has made and holds. State: it, until `remove`."""

    def __init__(self) -> None:
        """ExternalError SS6013 when none can be made."""
        self.path = make_socket_directory()
        self._held = hold(self.path)

    def remove(self) -> None:
        """Harmless when repeated."""
        if self._held >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = -1


def remove_dead_directories(parent: str) -> None:
    """Remove the directories of this user's clusters that nobody holds, and in which nobody listens any more. An empty one may
    be about to be held."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):
                if _DIRECTORY.fullmatch(entry.name) and _is_dead(entry):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_dead(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        return False
    # OSError while its owner holds it.
    os.close(hold(entry.path, waits=False))
    with os.scandir(entry.path) as inside:
        entries = list(inside)
    if not entries and time.time() - status.st_mtime < YOUNG_S:
        return False
    return all(stat.S_ISSOCK(e.stat(follow_symlinks=False).st_mode) and _is_refused(e.path) for e in entries)


def _is_refused(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def new_address(directory: str) -> str:
    """A new, unused socket address, as messages carry it."""
    return f"{_SCHEME}{os.path.join(directory, random_id()[:_NAME_CHARACTERS])}"


def directory_of(address: str) -> str:
    return os.path.dirname(socket_path(address))


def flight_location(address: str) -> str:
    """An address as a URI of Arrow Flight."""
    if address.startswith(_SCHEME):
        # Arrow decodes the path of the URI, and gRPC once more what it is given then.
        return "grpc+unix://" + urllib.parse.quote(urllib.parse.quote(socket_path(address)))
    return address


def remove_socket(address: str) -> None:
    try:
        os.unlink(socket_path(address))
    except OSError:
        return


def remove_directory_without(address: str) -> None:
    """Remove the directory of a cluster once its JobManager, at `address`, no longer listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(socket_path(address))
        except (FileNotFoundError, ConnectionRefusedError):
            shutil.rmtree(directory_of(address), ignore_errors=True)
        except OSError:
            return


def is_unix(address: str) -> bool:
    return address.startswith(_SCHEME)


def socket_path(address: str) -> str:
    """The path of a Unix socket's address."""
    return address.removeprefix(_SCHEME)
