"""A file system elsewhere, such as S3, as a store of files: through what has the methods of pyarrow's file systems."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, runtime_checkable

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.files import PLACED_UNKNOWN, Files, FileStatus, is_hidden

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_KEY_BYTES_MAX = 1024
_MAGIC = ("*", "?", "[")


@runtime_checkable
class HasDirectories(Protocol):
    """A store that has directories without files in them."""

    def remove_empty(self, path: str) -> None:
        """Leave anything but an empty directory unchanged. OSError."""


class StoreFiles(Files):
    """Files of a store without locks: paths are `prefix`, such as `s3://`, and what the store calls the key behind `root`.

    A file of an object store appears when its stream is closed. It is published by a copy within the store, after which the
    staged one is removed; with `renames` by a rename, and directories are there without files in them. Nothing can be locked, so
    that what a killed process has left stays, hidden, until its job is committed or aborted. No state."""

    def __init__(self, store: fs.FileSystem, prefix: str, root: str = "", *, renames: bool = False) -> None:
        self._store = store
        self._prefix = prefix
        self._root = root
        self._renames = renames

    def require_database_servers(self) -> None:
        """Whoever made this has asked."""

    def require_callable(self, host: str, address: str) -> None:
        """Whoever made this has asked."""

    # --- reading

    def open_read(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self.map_read(path))

    def map_read(self, path: str) -> pa.NativeFile:
        try:
            return self._store.open_input_file(self._key(path))
        except OSError as error:
            raise file_error("read", path, error) from error

    def handed_on(self, path: str) -> str:
        return path

    def absolute(self, path: str) -> str:
        return path

    # --- writing

    def open_write(self, path: str) -> BinaryIO:
        try:
            return cast(BinaryIO, self._store.open_output_stream(self._key(path)))
        except OSError as error:
            raise file_error("write", path, error) from error

    def sync(self, stream: BinaryIO) -> None:
        """Nothing to do: the store keeps what is closed."""

    def sync_directory(self, path: str) -> None:
        """Nothing to do, as above."""

    def publish(self, staged: str, final: str) -> None:
        try:
            if self._renames:
                self._store.move(self._key(staged), self._key(final))
                return
            self._store.copy_file(self._key(staged), self._key(final))
            self._store.delete_file(self._key(staged))
        except OSError as error:
            raise file_error("publish", staged, error) from error

    def remove(self, path: str) -> None:
        status = self.status(path)
        if status is None:
            return
        try:
            if status.is_directory:
                self._store.delete_dir(self._key(path))
            else:
                self._store.delete_file(self._key(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_error("remove", path, error) from error

    def remove_directory_if_empty(self, path: str) -> None:
        """Of an object store nothing is to be done: a directory is there with its files, and to remove it would also remove what
        comes meanwhile."""
        if not isinstance(self._store, HasDirectories):
            return
        try:
            self._store.remove_empty(self._key(path))
        except OSError as error:
            raise file_error("remove", path, error) from error

    def make_directories(self, path: str) -> None:
        try:
            self._store.create_dir(self._key(path), recursive=True)
        except OSError as error:
            raise file_error("make directory", path, error) from error

    def lock(self, path: str) -> BinaryIO | None:
        return None

    # --- looking

    def status(self, path: str) -> FileStatus | None:
        try:
            info = self._store.get_file_info(self._key(path))
        except OSError as error:
            raise file_error("look at", path, error) from error
        return self._status(info)

    def list_files(self, directory: str) -> list[FileStatus]:
        root = self._key(directory)
        entries = self._entries(root, is_recursive=True)
        if not entries and self.status(directory) is None:
            raise ExternalError("SS5001", f'could not list "{directory}": there is nothing')
        found = []
        for info in entries:
            below = info.path[len(root) :].strip("/")
            status = self._status(info)
            if status is not None and not status.is_directory and not any(map(is_hidden, below.split("/"))):
                found.append(status)
        return sorted(found, key=lambda f: f.path)

    def list_names(self, directory: str, names_max: int) -> list[tuple[str, bool]]:
        entries = (e for e in self._entries(self._key(directory)) if not is_hidden(e.base_name))
        return sorted((e.base_name, not e.is_file) for e in itertools.islice(entries, names_max))

    def match_glob(self, pattern: str) -> list[str]:
        parts = self._key(pattern).split("/")
        fixed = next((i for i, part in enumerate(parts) if _is_magic(part)), len(parts) - 1)
        found: set[str] = {"/".join(parts[:fixed])}
        for i, part in enumerate(parts[fixed:], fixed + 1):
            found = set().union(*(self._matches(key, part, i == len(parts)) for key in found))
        return sorted(map(self._path, found))

    def _matches(self, key: str, part: str, is_last: bool) -> Iterable[str]:
        """What is below a key and fits one part of a pattern; only directories, unless it is the last part."""
        if part == "**":
            below = [e.path for e in self._entries(key, is_recursive=True) if is_last or not e.is_file]
            return [key, *(p for p in below if "/." not in p[len(key) :])]
        if not _is_magic(part):
            child = f"{key}/{part}"
            return [child] if self.status(self._path(child)) is not None else []
        entries = [e for e in self._entries(key) if is_last or not e.is_file]
        names = [e.base_name for e in entries if part.startswith(".") or not e.base_name.startswith(".")]
        return [f"{key}/{name}" for name in names if fnmatch.fnmatchcase(name, part)]

    def name_bytes_max(self, directory: str) -> int:
        return _KEY_BYTES_MAX

    def require_writable(self, directory: str) -> None:
        return

    def path_bytes_max(self) -> int:
        return _KEY_BYTES_MAX

    # --- the store's own words

    def _key(self, path: str) -> str:
        """What the store calls it: the bucket and the key, say."""
        return self._root + path.removeprefix(self._prefix).rstrip("/")

    def _path(self, key: str) -> str:
        return self._prefix + key.removeprefix(self._root)

    def _entries(self, key: str, is_recursive: bool = False) -> list[fs.FileInfo]:
        from pyarrow import fs

        try:
            return list(
                self._store.get_file_info(fs.FileSelector(key, recursive=is_recursive, allow_not_found=True))
            )
        except OSError as error:
            raise file_error("list", self._path(key), error) from error

    def _status(self, info: fs.FileInfo) -> FileStatus | None:
        from pyarrow import fs

        if info.type == fs.FileType.NotFound:
            return None
        is_directory = info.type == fs.FileType.Directory
        modified_ms = (info.mtime_ns or 0) // 1_000_000
        # An object cannot be renamed: it came when it was written.
        placed_ms = PLACED_UNKNOWN if self._renames else modified_ms
        return FileStatus(self._path(info.path), info.size or 0, modified_ms, is_directory, placed_ms)


def _is_magic(part: str) -> bool:
    return any(character in part for character in _MAGIC)
