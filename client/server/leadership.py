"""Which of several servers leads, by a directory that all of them reach.

Below it is one directory `epoch-<n>-<server>`, with what only the leader may write: jobs and catalog. Its file `beat` changes
while the leader lives. A server that has seen no change for the lease renames the directory to its own next epoch: of several,
one alone can. From that moment on every path of the leader before is gone, so that all that it still writes when it wakes fails.
Clocks are compared with nobody's: each server measures how long it has seen no change.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable

from sqlstream.client.server.kept_file import make_private_directory, remove_file, write_file
from sqlstream.errors import ExternalError
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.whole_files import sync_directory

logger = logging.getLogger(__name__)

BEATS_A_LEASE = 5
LOOK_MAX_S = 1.0
BEAT, RELEASED = "beat", "released"
EPOCHS = "leader"

_EPOCH = re.compile(r"epoch-(\d{1,18})-([A-Za-z0-9_.-]*)")
_FIRST = "epoch-0-"


class Leadership:
    """A server among those of the directory `root`, which is made when it is not there. `on_lost` is called once, by any thread,
    when another server may lead; the caller ends the process and writes nothing more.

    State: the epoch that this server leads in, and the thread that says that it lives."""

    def __init__(
        self,
        root: str,
        lease_s: float,
        on_lost: Callable[[], None],
        now_s: Callable[[], float] = steady_s,
    ) -> None:
        """ExternalError SS5001, UserError SS4012."""
        self.root = root
        self._epochs = os.path.join(root, EPOCHS)
        for path in (root, self._epochs):
            make_private_directory(path)
        self._lease_s = lease_s
        self._on_lost = on_lost
        self._now_s = now_s
        self._name = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:60] + f"-{secrets.token_hex(4)}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="leadership", daemon=True)
        self._renewed_s = 0.0
        self.directory = ""
        """Where the leader keeps what it alone may write; empty before this server leads."""

    @property
    def epoch(self) -> int:
        """The number of the epoch in which this server leads; -1 before it does."""
        found = _EPOCH.fullmatch(os.path.basename(self.directory))
        return int(found[1]) if found is not None else -1

    def wait(self, is_stopped: threading.Event, on_waiting: Callable[[], None] = lambda: None) -> bool:
        """Return when this server leads; False when it was stopped before. `on_waiting` is called once when another one leads."""
        seen: tuple[str, bytes] | None = None
        since_s = self._now_s()
        while not is_stopped.is_set():
            found = self._current()
            state = (found, self._beat_of(found))
            if state != seen:
                if seen is None and not self._is_free(found):
                    on_waiting()
                seen, since_s = state, self._now_s()
            is_over = self._now_s() - since_s > self._lease_s
            if (is_over or self._is_free(found)) and self._take(found):
                self._thread.start()
                return True
            is_stopped.wait(min(LOOK_MAX_S, self._lease_s / BEATS_A_LEASE / 2))
        return False

    def stop(self) -> None:
        """Let another server lead at once: whatever this one has begun has ended. Harmless when repeated."""
        self._ended.set()
        if self.directory and self._thread.is_alive():
            self._thread.join()
            with contextlib.suppress(ExternalError):
                write_file(os.path.join(self.directory, RELEASED), b"")

    # --- the directory

    def _current(self) -> str:
        """The name of the newest epoch."""
        found = [
            (int(match[1]), name) for name in os.listdir(self._epochs) if (match := _EPOCH.fullmatch(name))
        ]
        if not found:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.join(self._epochs, _FIRST), 0o700)
            return _FIRST
        return max(found)[1]

    def _is_free(self, epoch: str) -> bool:
        return epoch == _FIRST or os.path.exists(os.path.join(self._epochs, epoch, RELEASED))

    def _beat_of(self, epoch: str) -> bytes:
        try:
            with open(os.path.join(self._epochs, epoch, BEAT), "rb") as stream:
                return stream.read(64)
        except OSError:
            return b""

    def _take(self, epoch: str) -> bool:
        """Whether this server leads from now on; False when another was faster."""
        number = int(epoch.split("-")[1]) + 1
        name = f"epoch-{number}-{self._name}"
        path = os.path.join(self._epochs, name)
        try:
            os.rename(os.path.join(self._epochs, epoch), path)
        except FileNotFoundError:
            return False
        sync_directory(self._epochs)
        if self._current() != name:
            # What was renamed was not the newest: it was made while the newest was being renamed, and is empty.
            with contextlib.suppress(OSError):
                os.rmdir(path)
            return False
        remove_file(os.path.join(path, RELEASED))
        self.directory = path
        self._beat(0)
        return True

    def _beat(self, count: int) -> None:
        begun_s = self._now_s()
        write_file(os.path.join(self.directory, BEAT), f"{self._name} {count}".encode(), is_durable=False)
        self._renewed_s = begun_s

    def _live(self) -> None:
        count = 0
        while not self._ended.wait(self._lease_s / BEATS_A_LEASE):
            count += 1
            try:
                self._beat(count)
            except ExternalError as error:
                is_over = self._now_s() - self._renewed_s > self._lease_s
                if is_over or not os.path.isdir(self.directory):
                    logger.critical("this server leads no longer: %s", error.message)
                    self._on_lost()
                    return
                logger.warning("could not say that this server lives: %s", error.message)


def newest_epoch(root: str) -> str:
    """The directory of the server that leads now, or has led last; `root` itself where none ever has."""
    directory = os.path.join(root, EPOCHS)
    names = os.listdir(directory) if os.path.isdir(directory) else []
    found = [(int(match[1]), name) for name in names if (match := _EPOCH.fullmatch(name))]
    return os.path.join(directory, max(found)[1]) if found else root
