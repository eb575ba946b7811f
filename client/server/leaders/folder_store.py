"""Records in a folder of a file system that several hosts have."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterator

from sqlstream.client.server.kept_file import make_private_directory
from sqlstream.client.server.leaders.record_store import Conflict, Record
from sqlstream.errors import ExternalError
from sqlstream.runtime.host.whole_files import FILE_MODE, sync_directory

_DRAFT = ".draft-"
_LEFT_S = 3600.0
"""A draft that is so old is left by a killed process. Whoever stands still for as long finds it gone, and replaces nothing."""


class FolderStore:
    """A record is a folder, and each version of it a file with the next number, which a link makes whole and at once: of several
    writers one alone can. Older files go after it. Who comes so late that the number is free again finds a higher one beside its
    own, which nobody reads. Implements `RecordStore`. No state."""

    bytes_max = 1 << 28

    def __init__(self, directory: str) -> None:
        """`directory` is made when it is not there. ExternalError SS5001, UserError SS4012."""
        self._directory = directory
        make_private_directory(directory)
        with _failing(directory):
            self._remove_left_drafts()

    def _remove_left_drafts(self) -> None:
        for name in os.listdir(self._directory):
            path = os.path.join(self._directory, name)
            with contextlib.suppress(FileNotFoundError):
                if name.startswith(_DRAFT) and os.stat(path).st_mtime < time.time() - _LEFT_S:
                    os.unlink(path)

    def read(self, key: str) -> Record | None:
        while True:
            with _failing(self._path(key)):
                number = self._newest(key)
                if number is None:
                    return None
                # Else a newer one has come meanwhile.
                with (
                    contextlib.suppress(FileNotFoundError),
                    open(self._path(key, number), "rb") as stream,
                ):
                    return Record(stream.read(), str(number))

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        number = int(expected or 0) + 1
        path = self._path(key, number)
        draft = os.path.join(self._directory, f"{_DRAFT}{uuid.uuid4().hex}")
        with _failing(path):
            if self._newest(key) != (None if expected is None else int(expected)):
                raise Conflict
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._path(key), 0o700)
            try:
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.link(draft, path)
            except (FileExistsError, FileNotFoundError) as error:
                raise Conflict from error
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft)
            sync_directory(self._path(key))
            if expected is None:
                # The folder itself is new, or was made by somebody who has died since.
                sync_directory(self._directory)
            if self._newest(key) != number:
                # It has come so late that nobody reads it, or another one has replaced it already.
                raise OSError(errno.EAGAIN, "another server writes it")
            self._remove(key, [n for n in self._numbers(key) if n < number])
        return str(number)

    def remove(self, key: str) -> None:
        with _failing(self._path(key)), contextlib.suppress(FileNotFoundError):
            self._remove(key, self._numbers(key))
            os.rmdir(self._path(key))

    def keys(self) -> list[str]:
        with _failing(self._directory):
            return [name for name in os.listdir(self._directory) if not name.startswith(_DRAFT)]

    def close(self) -> None:
        """Nothing is open."""

    def _path(self, key: str, number: int | None = None) -> str:
        return os.path.join(self._directory, key, *([] if number is None else [str(number)]))

    def _numbers(self, key: str) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._path(key)) if name.isdecimal()]
        except FileNotFoundError:
            return []

    def _newest(self, key: str) -> int | None:
        return max(self._numbers(key), default=None)

    def _remove(self, key: str, numbers: list[int]) -> None:
        for number in numbers:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(key, number))


@contextlib.contextmanager
def _failing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise ExternalError("SS6080", f'the store of leaders fails at "{path}": {reason}') from error
