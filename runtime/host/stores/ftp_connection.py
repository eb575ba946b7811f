"""FTP by Python's ftplib. fsspec breaks off a transfer for each block that it reads; here a file that is read from its
beginning to its end is one transfer."""

from __future__ import annotations

import datetime
import ftplib
import io
import socket
from typing import Any, BinaryIO, cast

from sqlstream.runtime.host.file_systems import FileSystemOptions, Place
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.remote_store import CONNECT_TIMEOUT_S, SILENCE_S_MAX, Entry, RemoteStore
from sqlstream.spi.files import Files

_PORT = 21
_NOT_THERE = ("501", "550")
_REFUSED = ("530", "532", "553")
_BUFFER_BYTES = 1 << 20


def ftp(place: Place, options: FileSystemOptions, files: Files) -> Files:
    return StoreFiles(RemoteStore(lambda: FtpConnection(place, options)), place.path, renames=True)


class FtpConnection:
    """Implements `Connection`. The server must know MLSD, SIZE and REST (RFC 3659), and replace files by its rename.

    FTP says 550 or 501 for what is not there as for what is not allowed: then the directory is asked. State: the connection,
    and the transfer that is under way."""

    errors: tuple[type[Exception], ...] = (ftplib.Error,)

    def __init__(self, place: Place, options: FileSystemOptions) -> None:
        host, port = place.server
        self._ftp = ftplib.FTP(timeout=CONNECT_TIMEOUT_S, encoding="utf-8")
        try:
            self._ftp.connect(host, port or _PORT)
            assert self._ftp.sock is not None
            self._ftp.sock.settimeout(SILENCE_S_MAX)
            self._ftp.timeout = SILENCE_S_MAX
            self._ftp.login(options.user or "", options.password or "")
        except ftplib.Error as error:
            self._ftp.close()
            if str(error)[:3] in _REFUSED:
                raise PermissionError(f'the server "{place.authority}" refuses the login') from error
            raise OSError(str(error)) from error

    def info(self, path: str) -> Entry | None:
        if path == "/":
            return Entry("/", True, 0, 0)
        parent, _, name = path.rpartition("/")
        try:
            facts = dict(self._ftp.mlsd(parent or "/")).get(name)
        except ftplib.error_perm as error:
            if str(error).startswith(_NOT_THERE):
                return None
            raise
        return _entry(path, facts) if facts is not None else None

    def list(self, path: str) -> list[Entry]:
        try:
            names = list(self._ftp.mlsd(path))
        except ftplib.error_perm as error:
            raise self._failure(path, error) from error
        kinds = ("file", "dir")
        return [_entry(f"{path.rstrip('/')}/{n}", facts) for n, facts in names if facts.get("type") in kinds]

    def open_read(self, path: str) -> BinaryIO:
        try:
            # A listing has left it in the mode of texts, which has no sizes.
            self._ftp.voidcmd("TYPE I")
            size = self._ftp.size(path) or 0
        except ftplib.error_perm as error:
            raise self._failure(path, error) from error
        return cast(BinaryIO, io.BufferedReader(_Reading(self._ftp, path, size), _BUFFER_BYTES))

    def open_write(self, path: str) -> BinaryIO:
        try:
            self._ftp.voidcmd("TYPE I")
            data = self._ftp.transfercmd(f"STOR {path}")
        except ftplib.error_perm as error:
            # The directory may be missing: whoever called makes it, and asks again.
            raise self._failure(path, error) from error
        return cast(BinaryIO, io.BufferedWriter(_Writing(self._ftp, data), _BUFFER_BYTES))

    def rename(self, path: str, other: str) -> None:
        try:
            self._ftp.rename(path, other)
        except ftplib.error_perm as error:
            raise self._failure(other, error) from error

    def remove_file(self, path: str) -> None:
        try:
            self._ftp.delete(path)
        except ftplib.error_perm as error:
            raise self._failure(path, error) from error

    def make_directory(self, path: str) -> None:
        self._ftp.mkd(path)

    def remove_directory(self, path: str) -> None:
        self._ftp.rmd(path)

    def close(self) -> None:
        self._ftp.close()

    def _failure(self, path: str, error: ftplib.error_perm) -> OSError:
        """FileNotFoundError when nothing is at the path, else what the server says."""
        said = str(error)
        if said.startswith(_NOT_THERE) and self.info(path) is None:
            return FileNotFoundError(said)
        return PermissionError(said) if said[:3] in _REFUSED else OSError(said)


class _Reading(io.RawIOBase):
    """A file that is being received. A seek elsewhere ends the transfer, and the next read begins another one.
    State: the position, and the transfer from there on."""

    def __init__(self, ftp: ftplib.FTP, path: str, size: int) -> None:
        self._ftp, self._path, self._size = ftp, path, size
        self._position = 0
        self._data: socket.socket | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        position = offset + (0, self._position, self._size)[whence]
        if position != self._position:
            self._end()
            self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._size:
            self._end()
            return 0
        if self._data is None:
            self._data = self._ftp.transfercmd(f"RETR {self._path}", rest=self._position or None)
        view = memoryview(buffer).cast("B")
        count = self._data.recv_into(view[: self._size - self._position])
        if count == 0:
            raise OSError("the connection was closed within the file")
        self._position += count
        return count

    def _end(self) -> None:
        data, self._data = self._data, None
        if data is None:
            return
        data.close()
        try:
            self._ftp.voidresp()
        except ftplib.Error:
            # The server says that it could not send all: it was not meant to.
            return

    def close(self) -> None:
        if not self.closed:
            try:
                self._end()
            finally:
                super().close()


class _Writing(io.RawIOBase):
    """A file that is being sent; it is whole when `close` returns. State: the transfer."""

    def __init__(self, ftp: ftplib.FTP, data: socket.socket) -> None:
        self._ftp, self._data = ftp, data
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._data.sendall(view)
        self._position += len(view)
        return len(view)

    def close(self) -> None:
        if not self.closed:
            try:
                self._data.close()
                self._ftp.voidresp()
            finally:
                super().close()


def _entry(path: str, facts: dict[str, str]) -> Entry:
    modified = facts.get("modify", "")[:14]
    modified_ns = 0
    if len(modified) == 14 and modified.isdecimal():
        at = datetime.datetime.strptime(modified, "%Y%m%d%H%M%S").replace(tzinfo=datetime.UTC)
        modified_ns = int(at.timestamp()) * 1_000_000_000
    is_directory = facts.get("type") in ("dir", "cdir", "pdir")
    return Entry(path, is_directory, 0 if is_directory else int(facts.get("size", "0")), modified_ns)
