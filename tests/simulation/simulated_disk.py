"""A journaling disk under a seeded fate: processes die and the power fails between any two calls, and writes find it full."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import random
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from sqlstream.runtime.host.files import file_error
from sqlstream.spi.files import Files, FileStatus, is_hidden


class Died(BaseException):
    """The process ends here: no handler of an error runs in it."""


class _Inode:
    """A file's bytes, and those of them that reached the disk."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.modified_ms = 0


_Names = dict[str, _Inode]
_Change = tuple[str, _Inode | None]


class Disk:
    """Names of files, and changes of names that are not durable yet. What was written to a file and not synced is gone after a
    power cut, or there in part. `is_journaled`: one journal for all names, as ext4 and xfs have it, so that a sync makes all
    changes before it durable and a power cut undoes the last ones; otherwise each directory has its own, as POSIX allows.
    `lies`: the share of syncs that return and leave the bytes of the file behind (its name is there).

    State: as above."""

    def __init__(self, rng: random.Random, lies: float = 0.0) -> None:
        self._rng = rng
        self._lies = lies
        self._is_journaled = rng.random() < 0.5
        self.names: _Names = {}
        self._durable: _Names = {}
        self._changes: dict[str, list[tuple[_Change, ...]]] = {}
        self.is_full = False

    def change(self, directory: str, *changes: _Change) -> None:
        """Changes of names, of which the last is in this directory; a crash keeps or undoes them together."""
        _apply(self.names, changes)
        self._changes.setdefault(self._journal(directory), []).append(changes)

    def sync(self, directory: str, inode: _Inode | None = None) -> None:
        if inode is not None and not self._rng.random() < self._lies:
            inode.durable = bytes(inode.data)
        for changes in self._changes.pop(self._journal(directory), ()):
            _apply(self._durable, changes)

    def cut_power(self) -> None:
        """Keep what is durable and, as it happens, the first of the changes that are not."""
        for journal in self._changes.values():
            for changes in journal[: self._rng.randint(0, len(journal))]:
                _apply(self._durable, changes)
        self._changes.clear()
        for inode in dict.fromkeys(self._durable.values()):
            if bytes(inode.data) != inode.durable and self._rng.random() < 0.5:
                # Pages reach the disk in any order; those that have not are zero.
                kept = self._rng.randint(0, len(inode.data))
                inode.durable = inode.durable[:kept].ljust(kept, b"\0") or inode.durable
            inode.data = bytearray(inode.durable)
        self.names = dict(self._durable)

    def _journal(self, directory: str) -> str:
        return "" if self._is_journaled else directory


def _apply(names: _Names, changes: tuple[_Change, ...]) -> None:
    for path, inode in changes:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


class DiskFiles(Files):
    """The files of one process on several disks, each below its root. `step` is called before and after each call that changes
    something, and may raise Died. State: whether the process is dead: then no call has an effect."""

    def __init__(self, disks: dict[str, Disk], step: Callable[[], None]) -> None:
        self._disks = disks
        self._step = step
        self._clock_ms = 0

    def disk(self, path: str) -> Disk:
        return next(disk for root, disk in self._disks.items() if path.startswith(root))

    def change(self, path: str, *changes: _Change) -> None:
        self._step()
        self.disk(path).change(os.path.dirname(path), *changes)
        self._step()

    def require_database_servers(self) -> None:
        """Here they may."""

    def require_callable(self, host: str, address: str) -> None:
        """Any."""

    # --- reading

    def _inode(self, action: str, path: str) -> _Inode:
        found = self.disk(path).names.get(path)
        if found is None:
            raise file_error(action, path, OSError(errno.ENOENT, ""))
        return found

    def open_read(self, path: str) -> BinaryIO:
        return io.BytesIO(bytes(self._inode("read", path).data))

    def map_read(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(bytes(self._inode("read", path).data))

    def handed_on(self, path: str) -> str:
        return path

    def absolute(self, path: str) -> str:
        return path

    # --- writing

    def open_write(self, path: str) -> BinaryIO:
        disk = self.disk(path)
        if disk.is_full:
            raise file_error("write", path, OSError(errno.ENOSPC, ""))
        inode = _Inode()
        self.change(path, (path, inode))
        return _Stream(path, disk, inode)

    def sync(self, stream: BinaryIO) -> None:
        assert isinstance(stream, _Stream)
        self._step()
        stream.sync()
        self._step()

    def sync_directory(self, path: str) -> None:
        self._step()
        self.disk(path).sync(path.rstrip("/"))
        self._step()

    def publish(self, staged: str, final: str) -> None:
        inode = self._inode("rename", staged)
        self.change(final, (staged, None), (final, inode))

    def remove(self, path: str) -> None:
        names = self.disk(path).names
        gone = [name for name in names if name == path or name.startswith(f"{path}/")]
        for name in sorted(gone):
            self.change(name, (name, None))

    def remove_directory_if_empty(self, path: str) -> None:
        """Directories are there with their files."""

    def make_directories(self, path: str) -> None:
        """As above."""

    def lock(self, path: str) -> BinaryIO | None:
        return self.open_read(path) if self.status(path) is not None else None

    # --- looking

    def status(self, path: str) -> FileStatus | None:
        names = self.disk(path).names
        if path in names:
            return FileStatus(path, len(names[path].data), names[path].modified_ms)
        if any(name.startswith(f"{path}/") for name in names):
            return FileStatus(path, 0, 0, is_directory=True)
        return None

    def list_files(self, directory: str) -> list[FileStatus]:
        names = self.disk(directory).names
        below = [n for n in sorted(names) if n.startswith(f"{directory}/")]
        parts = ((n, n[len(directory) + 1 :].split("/")) for n in below)
        return [self.status(n) or FileStatus(n, 0, 0) for n, found in parts if not any(map(is_hidden, found))]

    def list_names(self, directory: str, names_max: int) -> list[tuple[str, bool]]:
        below = (n[len(directory) + 1 :] for n in self.disk(directory).names if n.startswith(f"{directory}/"))
        found = {(name.split("/")[0], "/" in name) for name in below}
        return sorted((name, is_directory) for name, is_directory in found if not is_hidden(name))[:names_max]

    def match_glob(self, pattern: str) -> list[str]:
        expression = re.compile("[^/]*".join(fnmatch.translate(p)[4:-3] for p in pattern.split("*")) + r"\Z")
        return sorted({path for path in self._all_paths(pattern) if expression.match(path)})

    def _all_paths(self, pattern: str) -> Iterator[str]:
        """Files and the directories that they are in."""
        for name in self.disk(pattern).names:
            path = name
            while path.strip("/"):
                yield path
                path = os.path.dirname(path)

    def name_bytes_max(self, directory: str) -> int:
        return 255

    def require_writable(self, directory: str) -> None:
        return

    def path_bytes_max(self) -> int:
        return 4095


class DurableFiles(DiskFiles):
    """As PrivateFiles: what is published is durable under its name."""

    def publish(self, staged: str, final: str) -> None:
        super().publish(staged, final)
        self.sync_directory(os.path.dirname(final))


class _Stream(io.RawIOBase):
    """A file while it is written: each write is on its way to the disk, and stays there only once synced."""

    def __init__(self, path: str, disk: Disk, inode: _Inode) -> None:
        super().__init__()
        self._directory = os.path.dirname(path)
        self._disk = disk
        self._inode = inode

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = bytes(memoryview(data))  # type: ignore[arg-type]
        self._inode.data += written
        return len(written)

    def tell(self) -> int:
        return len(self._inode.data)

    def sync(self) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._disk.sync(self._directory, self._inode)
