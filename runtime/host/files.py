"""The real file system. Connectors and formats reach files through this and nothing else, so that tests can
make it fail."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
from typing import BinaryIO

import msgspec

from sqlstream.errors import ExternalError, Retry


class FileStatus(msgspec.Struct, frozen=True):
    path: str
    size: int
    modified_ms: int
    is_directory: bool = False


def is_hidden(name: str) -> bool:
    """Whether readers of tables pass over a file or directory: `.x` and `_x`, but not the partition `_x=1`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class LocalFiles:
    """Files of this machine. Every failure is an ExternalError SS5001 that names the path; no state."""

    def open_read(self, path: str) -> BinaryIO:
        try:
            return open(path, "rb", buffering=0)
        except OSError as error:
            raise file_error("read", path, error) from error

    def open_write(self, path: str) -> BinaryIO:
        """A new file, its directories made; an existing one is replaced."""
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            return open(path, "wb")
        except OSError as error:
            raise file_error("write", path, error) from error

    def lock(self, path: str) -> BinaryIO | None:
        """The file, to be read, and ours alone until it is closed or this process ends, however it ends. None when it
        is somebody else's or gone, and where the file system knows no locks."""
        try:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error("lock", path, error) from error
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(number)
            return None
        # Its last owner may have removed it between our two calls.
        if os.fstat(number).st_nlink == 0:
            os.close(number)
            return None
        return os.fdopen(number, "rb", buffering=0)

    def sync(self, stream: BinaryIO) -> None:
        """Return when what was written is on the disk. OSError, as from the stream itself."""
        os.fsync(stream.fileno())

    def status(self, path: str) -> FileStatus | None:
        """None when nothing is there."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error("look at", path, error) from error
        return FileStatus(path, found.st_size, found.st_mtime_ns // 1_000_000, os.path.isdir(path))

    def list_files(self, directory: str) -> list[FileStatus]:
        """All files below a directory, in order of their paths; hidden ones and their contents are left out."""
        found: list[FileStatus] = []
        try:
            for parent, directories, names in os.walk(directory, onerror=_raise):
                directories[:] = sorted(d for d in directories if not is_hidden(d))
                for name in names:
                    status = None if is_hidden(name) else self.status(os.path.join(parent, name))
                    if status is not None:
                        found.append(status)
        except OSError as error:
            raise file_error("list", error.filename or directory, error) from error
        return sorted(found, key=lambda f: f.path)

    def match_glob(self, pattern: str) -> list[str]:
        """Paths that fit a pattern with `*`, `?`, `[…]` and `**`, in order."""
        return sorted(glob.glob(pattern, recursive=True))

    def rename(self, source: str, target: str) -> None:
        """Move a file into place at once; an existing target is replaced."""
        try:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
            os.replace(source, target)
        except OSError as error:
            raise file_error("rename", source, error) from error

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; nothing there is fine."""
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_error("remove", path, error) from error

    def remove_directory_if_empty(self, path: str) -> None:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise file_error("remove", path, error) from error

    def make_directories(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise file_error("make directory", path, error) from error


def _raise(error: OSError) -> None:
    raise error


def file_error(action: str, path: str, error: OSError) -> ExternalError:
    """What the operating system said, as an error of ours; a full disk says so."""
    hints = {
        errno.ENOSPC: "free space on the disk, then run the statement again",
        errno.EACCES: "give the user that runs sqlstream access to the path",
        errno.ENOENT: "check the path; a relative one starts where sqlstream was started",
    }
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return ExternalError(
        "SS5001",
        f'could not {action} "{path}": {reason}',
        retry=Retry.NEVER,
        hint=hints.get(error.errno or 0, ""),
    )
