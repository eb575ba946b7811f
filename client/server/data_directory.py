"""The directory in which a server keeps everything, for one server at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from types import TracebackType

import msgspec

from sqlstream.client.clusters.server_file import SERVER_FILE, ServerFile
from sqlstream.client.server.kept_file import make_private_directory, remove_file, write_file
from sqlstream.client.server.place_formats import check_formats, put_formats
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.whole_files import FILE_MODE


class DataDirectory:
    """A private directory, locked until `close` or the end of the process. UserError SS4010 when another server has it, SS6140
    when it has what this release cannot read. Unless it `is_stamped` nothing in it says that this release has used it.
    Where several servers share a place, catalog, jobs and sessions are in `fenced`, which only the leader has, and checkpoints,
    the cluster and tokens in `shared`; both are the directory unless they are given.

    artifacts/  catalog/  checkpoints/  cluster/  jobs/  sessions/  logs/  audit/
    tokens.json  token  formats.json  server.json  lock
    """

    def __init__(self, path: str, shared: str = "", fenced: str = "", *, is_stamped: bool = True) -> None:
        self.path, self.shared, self.fenced = path, shared or path, fenced or path
        self._is_fresh = not os.path.lexists(path)
        make_private_directory(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._lock = os.open(self._of("lock"), flags, FILE_MODE)
        except OSError as error:
            raise ExternalError("SS5001", f'could not open "{self._of("lock")}": {error.strerror}') from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(self._lock, 32).decode("ascii", "replace").strip()
            os.close(self._lock)
            raise UserError(
                "SS4010",
                f'the data directory "{path}" is in use by another server{f" (process {owner})" if owner else ""}',
            ) from error
        try:
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{os.getpid()}\n".encode())
            for place in {self.path, self.shared}:
                (put_formats if is_stamped else check_formats)(place)
        except OSError as error:
            os.close(self._lock)
            raise ExternalError(
                "SS5001", f'could not write "{self._of("lock")}": {error.strerror}'
            ) from error
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
        else:
            self.close()

    @property
    def catalog(self) -> str:
        return os.path.join(self.fenced, "catalog")

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.shared, "checkpoints")

    @property
    def artifacts(self) -> str:
        return os.path.join(self.shared, "artifacts")

    @property
    def cluster(self) -> str:
        return os.path.join(self.shared, "cluster")

    @property
    def jobs(self) -> str:
        return os.path.join(self.fenced, "jobs")

    @property
    def sessions(self) -> str:
        return os.path.join(self.fenced, "sessions")

    @property
    def logs(self) -> str:
        return self._of("logs")

    @property
    def audit(self) -> str:
        return self._of("audit")

    def _of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def announce(self, server: ServerFile) -> None:
        """Write down where the server is reached."""
        write_file(self._of(SERVER_FILE), msgspec.json.encode(server), is_durable=False)

    def discard(self) -> None:
        """Close it after a start that failed: a directory that was made for it goes with all that is in it, another one stays as
        it is."""
        if self._is_fresh and self._lock >= 0:
            # While it is locked: no other server can have begun to use it.
            shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let another server have the directory; harmless when repeated."""
        if self._lock < 0:
            return
        try:
            if os.path.isdir(self.path):
                remove_file(self._of(SERVER_FILE))
        finally:
            os.close(self._lock)
            self._lock = -1
