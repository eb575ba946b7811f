"""SFTP, WebHDFS and Alluxio by the libraries of fsspec."""

from __future__ import annotations

import functools
import importlib
import io
import socket
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from sqlstream.errors import UserError
from sqlstream.runtime.host.file_systems import FileSystemOptions, Place, missing_library
from sqlstream.runtime.host.process import hush
from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.remote_store import (
    CONNECT_TIMEOUT_S,
    SILENCE_S_MAX,
    Entry,
    ReadByParts,
    ReadingConnection,
    RemoteStore,
)
from sqlstream.spi.files import Files

_OWN = {"skip_instance_cache": True}
"""Each connection is an object of its own."""
_NO_LISTINGS = {"use_listings_cache": False}
"""Other processes change what is there."""

_SSH_PORT = 22
_WEBHDFS_PORT = {"webhdfs": 9870, "swebhdfs": 9871}
_ALLUXIO_HTTP_PORT = 28080
_FILE_BYTES = 4 << 20
"""What one call to WebHDFS reads or writes."""


class FsspecConnection:
    """Implements `Connection` for an object of fsspec. No state but this object's connection."""

    def __init__(self, system: Any, errors: tuple[type[Exception], ...]) -> None:
        self._system = system
        self.errors = errors

    def info(self, path: str) -> Entry | None:
        try:
            return self._entry(self._system.info(path))
        except FileNotFoundError:
            return None

    def list(self, path: str) -> list[Entry]:
        found = []
        for listed in self._system.ls(path, detail=True):
            # The name of a link has no size of its own; what it leads to may be gone.
            entry = self.info(listed["name"]) if listed["type"] == "link" else self._entry(listed)
            if entry is not None and not (listed["type"] == "link" and entry.is_directory):
                found.append(entry)
        return found

    def open_read(self, path: str) -> BinaryIO:
        return self._system.open(path, "rb", block_size=_FILE_BYTES)

    def open_write(self, path: str) -> BinaryIO:
        return self._system.open(path, "wb", block_size=_FILE_BYTES)

    def rename(self, path: str, other: str) -> None:
        self._system.mv(path, other)

    def remove_file(self, path: str) -> None:
        self._system.rm_file(path)

    def make_directory(self, path: str) -> None:
        self._system.mkdir(path, create_parents=False)

    def remove_directory(self, path: str) -> None:
        self._system.rmdir(path)

    def close(self) -> None:
        """Nothing to do, unless the library keeps something open."""

    def _entry(self, found: dict[str, Any]) -> Entry:
        modified = found.get("mtime")
        modified_ns = int(modified.timestamp() * 1000) * 1_000_000 if modified is not None else 0
        return Entry(found["name"], found["type"] == "directory", found["size"] or 0, modified_ns)


# --- SFTP


class _SftpConnection(FsspecConnection):
    """Its rename is the one of OpenSSH, which replaces a file at once."""

    def open_read(self, path: str) -> BinaryIO:
        opened = self._system.ftp.open(path, "rb")
        return cast(BinaryIO, io.BufferedReader(_SftpReading(opened), _FILE_BYTES))

    def open_write(self, path: str) -> BinaryIO:
        # Each part waits for its answer: the library forgets failures of those that do not.
        return self._system.ftp.open(path, "wb", bufsize=_FILE_BYTES)

    def remove_file(self, path: str) -> None:
        self._system.ftp.remove(path)

    def make_directory(self, path: str) -> None:
        self._system.ftp.mkdir(path)

    def close(self) -> None:
        self._system.client.close()


class _SftpReading(ReadByParts):
    """A file of which the library asks for many small parts at once, where a plain read waits for each."""

    def __init__(self, opened: Any) -> None:
        # What the library does for each part takes longer the more of them it has asked for.
        super().__init__(opened.stat().st_size or 0, _FILE_BYTES)
        self._opened = opened

    def part(self, position: int, size: int) -> bytes:
        (data,) = self._opened.readv([(position, size)])
        if not data:
            raise OSError("the file has become shorter")
        return cast(bytes, data)

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
            super().close()


def sftp(place: Place, options: FileSystemOptions, files: Files) -> Files:
    """UserError SS5086 for a server whose key is another one, or a private key that cannot be read."""
    try:
        import paramiko
    except ImportError as error:
        raise missing_library("sftp", "paramiko") from error
    hush("paramiko")
    system = _library("sftp", "fsspec.implementations.sftp", "SFTPFileSystem")
    host, port = place.server
    known = [part.strip() for part in (options.host_key or "").split(",") if part.strip()]

    class KnownKeys(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
        def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
            if not any(key.fingerprint == wanted for wanted in known):
                raise UserError(
                    "SS5086",
                    f'the server "{place.authority}" has the key {key.fingerprint}, which "fs.host-key" does not name',
                    hint="ask who runs the server for its fingerprint before you trust it",
                )

    def connect() -> _SftpConnection:
        try:
            made = system(
                host,
                port=port or _SSH_PORT,
                username=options.user,
                password=options.password or None,
                pkey=_private_key(options.private_key, place) if options.private_key else None,
                look_for_keys=False,
                allow_agent=False,
                host_key_policy=KnownKeys(),
                **dict.fromkeys(
                    ("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), CONNECT_TIMEOUT_S
                ),
                **_OWN,
            )
        except paramiko.AuthenticationException as error:
            raise PermissionError(f'the server "{place.authority}" refuses the login') from error
        except (paramiko.SSHException, EOFError) as error:
            raise OSError(str(error) or "the connection was closed") from error
        made.ftp.get_channel().settimeout(SILENCE_S_MAX)
        # Each part of a file that is written would wait for a timer of TCP.
        made.client.get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _SftpConnection(made, (paramiko.SSHException,))

    return StoreFiles(RemoteStore(connect), place.path, renames=True)


def _private_key(text: str, place: Place) -> Any:
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"))
        except (paramiko.SSHException, ValueError, IndexError):
            continue
    raise UserError(
        "SS5086",
        f'"fs.private-key" for "{place.path}" is no private key that can be read',
        hint="give the text of a file such as ~/.ssh/id_ed25519, made without a passphrase",
    )


# --- WebHDFS


class _WebHdfsConnection(FsspecConnection):
    """A file is replaced by a rename with OVERWRITE, which the name node carries out at once; the library's own rename ignores
    that a plain one is refused."""

    def rename(self, path: str, other: str) -> None:
        self._system._call("RENAME", method="put", path=path, destination=other, renameoptions="OVERWRITE")

    def remove_directory(self, path: str) -> None:
        done = self._system._call("DELETE", method="delete", path=path, recursive="false").json()
        if done.get("boolean") is False and self.info(path) is not None:
            raise OSError("the directory was not removed")

    def make_directory(self, path: str) -> None:
        self._system.mkdir(path)

    def close(self) -> None:
        self._system.session.close()

    def _entry(self, found: dict[str, Any]) -> Entry:
        modified_ns = int(found.get("modificationTime") or 0) * 1_000_000
        return Entry(found["name"], found["type"] == "directory", found["size"] or 0, modified_ns)


def webhdfs(place: Place, options: FileSystemOptions, files: Files) -> Files:
    """Certificates of swebhdfs are those that the system trusts."""
    system = _library(place.scheme, "fsspec.implementations.webhdfs", "WebHDFS")
    hush("urllib3")
    host, port = place.server

    def connect() -> _WebHdfsConnection:
        made = system(
            f"[{host}]" if ":" in host else host,
            port=port or _WEBHDFS_PORT[place.scheme],
            user=None if options.token else options.user,
            password=options.password,
            token=options.token,
            use_https=place.scheme == "swebhdfs",
            session_verify=True,
            **_OWN,
            **_NO_LISTINGS,
        )
        # It would take logins and proxies from the surroundings of this process.
        made.session.trust_env = False
        made.session.request = functools.partial(_asked, made.session.request)
        return _WebHdfsConnection(made, (RuntimeError, ValueError, KeyError))

    return StoreFiles(RemoteStore(connect), place.path, renames=True)


def _asked(request: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """The library sets no limit of time, and takes what a data node says of a failure for the bytes of a file."""
    answer = request(*given, **named, timeout=(CONNECT_TIMEOUT_S, SILENCE_S_MAX))
    if named.get("params") is None:
        answer.raise_for_status()
    return answer


# --- Alluxio


class _AlluxioConnection(ReadingConnection, FsspecConnection):
    """Nothing is written through a cache of which nobody says when it does so."""


def alluxio(place: Place, options: FileSystemOptions, files: Files) -> Files:
    """By the library of Alluxio, which is a package of its own."""
    host, port = place.server
    try:
        system = importlib.import_module("alluxiofs").AlluxioFileSystem
    except ImportError as error:
        raise UserError(
            "SS5084",
            'file system "alluxio" needs the Python package "alluxiofs", which is not installed',
            hint="install it: pip install alluxiofs; or read by the protocol of S3, which Alluxio has too, with 's3.endpoint'",
        ) from error

    def connect() -> _AlluxioConnection:
        made = system(worker_hosts=host, worker_http_port=port or _ALLUXIO_HTTP_PORT, **_OWN, **_NO_LISTINGS)
        return _AlluxioConnection(made, (RuntimeError, ValueError, KeyError))

    return StoreFiles(RemoteStore(connect), place.path, renames=True)


def _library(scheme: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise missing_library(scheme, "fsspec") from error
