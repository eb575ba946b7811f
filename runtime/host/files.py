"""The local disk as a store of files. Connectors and formats reach files through `Files` and nothing else, so that tests can make
it fail."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import itertools
import mmap
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from sqlstream.errors import ExternalError, FailureReason, UserError
from sqlstream.runtime.host.whole_files import sync_directory
from sqlstream.secrets import without_secrets
from sqlstream.spi.files import Files, FileStatus, is_hidden

if TYPE_CHECKING:
    import pyarrow as pa

_CANNOT_EXIST = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
"""The operating system's error numbers for a path at which nothing exists, or nothing can exist."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_NAME_BYTES_MAX = 255

_Made = TypeVar("_Made")


class LocalFiles(Files):
    """Files of this machine. A file is published by a rename; files lock by flock. No state."""

    def require_database_servers(self) -> None:
        """Here they may."""

    def require_callable(self, host: str, address: str) -> None:
        """Any address: it is the user's own machine that calls."""

    def open_read(self, path: str) -> BinaryIO:
        try:
            # Checked before, as opening a device can act on it; and after, as the file may have been replaced meanwhile.
            require_regular("read", path, os.stat(path).st_mode)
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                require_regular("read", path, os.fstat(number).st_mode)
            except UserError:
                os.close(number)
                raise
            return os.fdopen(number, "rb", buffering=0)
        except OSError as error:
            raise file_error("read", path, error) from error

    def map_read(self, path: str) -> pa.BufferReader:
        import pyarrow as pa

        # What `open_read` has checked is what is mapped: the path may lead elsewhere by now.
        with self.open_read(path) as stream:
            try:
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # the operating system maps no empty file
                return pa.BufferReader(b"")
            except OSError as error:
                raise file_error("read", path, error) from error
        return pa.BufferReader(pa.py_buffer(mapped))

    def handed_on(self, path: str) -> str:
        return os.path.abspath(path)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def open_write(self, path: str) -> BinaryIO:
        try:
            return _in_its_directory(path, lambda: open(path, "wb"))
        except OSError as error:
            raise file_error("write", path, error) from error

    def lock(self, path: str) -> BinaryIO | None:
        try:
            stream = self.open_read(path)
        except ExternalError:
            if self.status(path) is None:
                return None
            raise
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            return None
        # Its last owner may have removed it between our two calls.
        if os.fstat(stream.fileno()).st_nlink == 0:
            stream.close()
            return None
        return stream

    def sync(self, stream: BinaryIO) -> None:
        os.fsync(stream.fileno())

    def sync_directory(self, path: str) -> None:
        try:
            sync_directory(path)
        except OSError as error:
            raise file_error("sync", path, error) from error

    def status(self, path: str) -> FileStatus | None:
        try:
            found = os.stat(path)
        except OSError as error:
            if error.errno in _CANNOT_EXIST:
                return None
            raise file_error("look at", path, error) from error
        modified_ms, placed_ms = (ns // 1_000_000 for ns in (found.st_mtime_ns, found.st_ctime_ns))
        return FileStatus(path, found.st_size, modified_ms, stat.S_ISDIR(found.st_mode), placed_ms)

    def name_bytes_max(self, directory: str) -> int:
        present = os.path.abspath(directory)
        while True:
            try:
                return os.pathconf(present, "PC_NAME_MAX")
            except OSError:
                parent = os.path.dirname(present)
                if parent == present:
                    return _NAME_BYTES_MAX
                present = parent

    def require_writable(self, directory: str) -> None:
        present = os.path.abspath(directory)
        while not os.path.lexists(present):
            present = os.path.dirname(present)
        if not os.path.isdir(present):
            number = errno.ENOTDIR
        elif not os.access(present, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(present).f_flag & os.ST_RDONLY else errno.EACCES
        else:
            return
        error = OSError(number, "", present)
        raise file_error("write", directory, error) from error

    def path_bytes_max(self) -> int:
        # Linux counts the zero byte behind the path too.
        return os.pathconf("/", "PC_PATH_MAX") - 1

    def list_files(self, directory: str) -> list[FileStatus]:
        found: list[FileStatus] = []

        def refuse(error: OSError) -> None:
            # What another process has removed meanwhile is not there.
            if error.errno != errno.ENOENT or error.filename == directory:
                raise error

        try:
            for parent, _, names in self._walk(directory, is_hidden, refuse):
                for name in names:
                    status = self.status(os.path.join(parent, name))
                    if status is not None:
                        found.append(status)
        except OSError as error:
            raise file_error("list", error.filename or directory, error) from error
        return sorted(found, key=lambda f: f.path)

    def list_names(self, directory: str, names_max: int) -> list[tuple[str, bool]]:
        try:
            with os.scandir(directory) as entries:
                seen = itertools.islice((e for e in entries if not is_hidden(e.name)), names_max)
                return sorted((entry.name, entry.is_dir()) for entry in seen)
        except OSError as error:
            raise file_error("list", directory, error) from error

    def match_glob(self, pattern: str) -> list[str]:
        return sorted(self._matches(pattern))

    def _matches(self, pattern: str) -> set[str]:
        parts = pattern.split("/")
        if "**" not in parts:
            return set(glob.glob(pattern))
        at = parts.index("**")
        rest = parts[at + 1 :]
        found: set[str] = set()
        for base in glob.glob("/".join([*parts[:at], ""])) if at else [""]:
            for parent, directories, names in self._walk(base or ".", lambda name: name.startswith(".")):
                below = os.path.relpath(parent, base or ".")
                place = base if below == "." else os.path.join(base, below)
                if rest:
                    found |= self._matches(os.path.join(glob.escape(place), *rest))
                else:
                    found.update([place, *(os.path.join(place, name) for name in (*directories, *names))])
        return found - {""}

    def _walk(
        self, root: str, is_left_out: Callable[[str], bool], on_error: Callable[[OSError], None] | None = None
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk, also through links to directories, unless they lead back to one above."""
        behind_links: set[str] = set()
        for parent, directories, names in os.walk(root, onerror=on_error, followlinks=True):
            entered = []
            for name in sorted(name for name in directories if not is_left_out(name)):
                path = os.path.join(parent, name)
                if parent in behind_links or os.path.islink(path):
                    # The status also refuses a link that leads to where no tables may be.
                    if self.status(path) is None or _leads_back(path, root):
                        continue
                    behind_links.add(path)
                entered.append(name)
            directories[:] = entered
            yield parent, entered, [name for name in names if not is_left_out(name)]

    def publish(self, staged: str, final: str) -> None:
        try:
            require_replaceable(final)
            _in_its_directory(final, lambda: os.replace(staged, final))
        except OSError as error:
            raise file_error("rename", staged, error) from error

    def remove(self, path: str) -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
        except OSError as error:
            if error.errno not in _CANNOT_EXIST:
                raise file_error("remove", path, error) from error

    def remove_directory_if_empty(self, path: str) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in _CANNOT_EXIST | {errno.ENOTEMPTY, errno.EEXIST}:
                raise file_error("remove", path, error) from error

    def make_directories(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise file_error("make directory", path, error) from error


def _leads_back(path: str, root: str) -> bool:
    """Whether a directory is, or contains, one of those above it on the way from `root`."""
    parts, real = os.path.relpath(path, root).split(os.sep), os.path.realpath(path)
    above = (os.path.join(root, *parts[:i]) for i in range(len(parts)))
    return any(is_below(os.path.realpath(directory), real) for directory in above)


def is_below(real: str, directory: str) -> bool:
    """Whether a real path is that of the directory, or lies in it."""
    return real == directory or real.startswith(directory.rstrip("/") + "/")


def require_regular(action: str, path: str, mode: int) -> None:
    """UserError SS5017 for the mode of a pipe, socket or device. Directories pass: the operating system's own words for them are
    clear."""
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise UserError("SS5017", f'could not {action} "{path}": it is {kind}, not a file')


def require_replaceable(path: str) -> None:
    """UserError SS5017 for a pipe, socket or device, which a file would take the place of. A link is replaced itself."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if not stat.S_ISLNK(mode):
            require_regular("write", path, mode)


def list_if_there(directory: str, files: Files) -> list[FileStatus]:
    """All files below a directory, none where it is missing; others may remove it at any time."""
    try:
        return files.list_files(directory)
    except ExternalError:
        if files.status(directory) is None:
            return []
        raise


def _in_its_directory(path: str, make: Callable[[], _Made]) -> _Made:
    """Make the file at a path, and its directories before it. Others may remove one that is empty: then once more."""
    directory = os.path.dirname(path) or "."
    os.makedirs(directory, exist_ok=True)
    try:
        return make()
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)
        return make()


def file_error(action: str, path: str, error: OSError) -> ExternalError:
    """The operating system's error as an ExternalError; the hint depends on its cause, such as a full disk. One about an object
    store comes from there, or from the way to it, and has no number."""
    if not error.errno and "://" in path:
        return _store_error(action, path, error)
    number = error.errno or 0
    reason = os.strerror(number).lower() if number else str(error)
    return ExternalError(
        "SS5001",
        f'could not {action} "{path}": {reason}',
        hint=_HINTS.get(number, _NOT_REACHED if "://" in path else ""),
        reason=FailureReason.ACCESS_REFUSED if number in _LASTING else None,
    )


_NOT_REACHED = "check the path, and that the server can be reached"
_HINTS = {
    errno.ENOSPC: "free space on the disk, then run the statement again",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give the user that runs sqlstream access to the path"),
    errno.EROFS: "its file system is read-only: name a path on another, or mount it for writing",
    errno.ENOENT: "check the path; a relative one starts where sqlstream was started",
    errno.ENOTDIR: "what it names as a directory is none: name another path, or move the file away",
}
_LASTING = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP))
"""What waiting does not heal."""


_REFUSED = re.compile(
    r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|INVALID_CLIENT_TOKEN_ID"
    r"|INCOMPLETE_SIGNATURE|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN)\b|\(HTTP status 40[13]\)"
)
"""What Arrow says where a store of S3's protocol knows the keys not, or does not let their user do this."""


def _store_error(action: str, path: str, error: OSError) -> ExternalError:
    if not path.startswith(("s3://", "gs://", "abfs")):
        is_refused = isinstance(error, PermissionError)
        return ExternalError(
            "SS5001",
            f'could not {action} "{path}"',
            # Libraries quote addresses, in which a token may be.
            detail=without_secrets(error.strerror or str(error)),
            reason=FailureReason.ACCESS_REFUSED if is_refused else None,
            hint="check the login, and what its user may do there" if is_refused else _NOT_REACHED,
        )
    if _REFUSED.search(str(error)) is not None:
        return ExternalError(
            "SS5001",
            f'could not {action} "{path}": the store refuses it to the user of these keys',
            reason=FailureReason.ACCESS_REFUSED,
            detail=str(error),
            hint="check 's3.access-key' and 's3.secret-key', and what their user may do in the bucket",
        )
    return ExternalError(
        "SS5001",
        f'could not {action} "{path}"',
        detail=str(error),
        hint="check that the bucket is there, the keys, and the address of the store",
    )
