"""Files of allowed directories alone, whatever symbolic links and `..` a path goes through."""

from __future__ import annotations

import ipaddress
import os
from typing import BinaryIO

import msgspec

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import LocalFiles, file_error, is_below, require_regular
from sqlstream.spi.files import FileStatus

SYSTEM_DIRECTORIES = ("/proc", "/sys", "/dev")
"""What lies there is no data but the machine itself: memory, keys and environments of processes, settings, devices."""

_MEMORY_FILES = "/dev/shm"
"""Files in memory: data as elsewhere."""


class FilePlaces(msgspec.Struct, frozen=True):
    """Where files of tables may lie: below one of `roots`, and below none of `denied`. All are real paths. SYSTEM_DIRECTORIES
    are open only to a root that lies in them. `has_database_servers`: tables may lie in databases of other servers too;
    `has_private_addresses`: and at addresses that the internet cannot reach."""

    roots: tuple[str, ...] = ("/",)
    denied: tuple[str, ...] = ()
    has_database_servers: bool = False
    has_private_addresses: bool = False


_EMBEDDING = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("::/96"))
"""Addresses whose last four bytes are one of IPv4, to which a router may lead."""


def is_public(address: str) -> bool:
    """Whether an address is one of the internet, and not of this machine or its neighbours.

    >>> [is_public(a) for a in ("93.184.216.34", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "fe80::1%eth0")]
    [True, False, False, False, False]
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and any(parsed in network for network in _EMBEDDING):
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast


def files_at(places: FilePlaces | None) -> LocalFiles:
    """The files of these places, or all files of the machine."""
    return LocalFiles() if places is None else RootedFiles(places)


class RootedFiles(LocalFiles):
    """The files of this machine that really lie in the given places. A path that leads elsewhere is a UserError SS5030; so is
    one that is led elsewhere between the check and the opening. No state."""

    def __init__(self, places: FilePlaces) -> None:
        self._places = places

    @property
    def places(self) -> FilePlaces:
        """What `files_at` takes to make the same in another process."""
        return self._places

    def require_database_servers(self) -> None:
        if not self._places.has_database_servers:
            raise UserError(
                "SS5031", "this server connects to no database servers and stores for tables and checkpoints"
            )

    def require_callable(self, host: str, address: str) -> None:
        if not self._places.has_private_addresses and not is_public(address):
            raise UserError("SS5341", f'"{host}" is {address}, which is no address of the internet')

    def check(self, path: str) -> str:
        """The real path of what is, or would be, at `path`. UserError SS5030 when it is outside."""
        real = os.path.realpath(path)
        if any(is_below(real, denied) for denied in self._places.denied):
            raise UserError(
                "SS5030",
                f'"{path}" belongs to the server itself',
                hint="use a path outside of its data directory",
            )
        system = next((d for d in SYSTEM_DIRECTORIES if is_below(real, d)), None)
        if system is not None and not any(is_below(real, root) for root in self._roots_within(system)):
            raise UserError(
                "SS5030",
                f'"{path}" belongs to the operating system: it lies below "{system}", where no tables are',
                hint="copy what is to be read into a file elsewhere",
            )
        if not any(is_below(real, root) for root in self._places.roots):
            raise UserError(
                "SS5030",
                f'"{path}" lies outside of the directories that this server allows for files',
                hint=f"use a path below {' or '.join(self._places.roots)}; sqlstream.server.file-roots sets them",
            )
        return real

    def _roots_within(self, system: str) -> tuple[str, ...]:
        """The directories below a system directory that are allowed all the same."""
        return (_MEMORY_FILES, *(root for root in self._places.roots if is_below(root, system)))

    def open_read(self, path: str) -> BinaryIO:
        stream = super().open_read(self.check(path))
        self._check_opened(stream, path)
        return stream

    def handed_on(self, path: str) -> str:
        """The real path: a link that led to it when it was checked may lead elsewhere when it is opened."""
        return self.check(self.check(path))

    def open_write(self, path: str) -> BinaryIO:
        """A new file, or an existing one that is emptied. UserError SS5017 for a pipe, socket or device."""
        real = self.check(path)
        try:
            os.makedirs(os.path.dirname(real), exist_ok=True)
            if os.path.exists(real):
                require_regular("write", path, os.stat(real).st_mode)
            # Not emptied before it is known where it lies, and never held up by a pipe that took its place.
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            stream = os.fdopen(os.open(real, flags, 0o666), "wb")
        except OSError as error:
            raise file_error("write", path, error) from error
        self._check_opened(stream, path)
        try:
            require_regular("write", path, os.fstat(stream.fileno()).st_mode)
        except UserError:
            stream.close()
            raise
        stream.truncate(0)
        return stream

    def _check_opened(self, stream: BinaryIO, path: str) -> None:
        try:
            self.check(os.readlink(f"/proc/self/fd/{stream.fileno()}"))
        except FileNotFoundError:
            # Without /proc the check of the path, just before, is the only one.
            return
        except UserError:
            stream.close()
            raise UserError("SS5030", f'"{path}" was moved outside while it was opened') from None

    def status(self, path: str) -> FileStatus | None:
        self.check(path)
        return super().status(path)

    def list_files(self, directory: str) -> list[FileStatus]:
        self.check(directory)
        return super().list_files(directory)

    def list_names(self, directory: str, names_max: int) -> list[tuple[str, bool]]:
        self.check(directory)
        return super().list_names(directory, names_max)

    def match_glob(self, pattern: str) -> list[str]:
        """A pattern may not climb (`*/..`): the part before its first wildcard is checked, and all that it matches."""
        fixed = pattern.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
        self.check(os.path.dirname(fixed) or ".")
        if ".." in pattern[len(fixed) :].split("/"):
            raise UserError("SS5030", f'the pattern "{pattern}" leads upwards behind a wildcard')
        found = super().match_glob(pattern)
        for path in found:
            self.check(path)
        return found

    def lock(self, path: str) -> BinaryIO | None:
        self.check(path)
        return super().lock(path)

    def sync_directory(self, path: str) -> None:
        self.check(path)
        super().sync_directory(path)

    def publish(self, staged: str, final: str) -> None:
        self.check(staged)
        self.check(final)
        super().publish(staged, final)

    def remove(self, path: str) -> None:
        # A link itself may go, wherever it leads; what counts is where it lies. Its path is not made shorter first: a `..`
        # behind another link leads up from where that one leads to.
        directory, name = os.path.split(path)
        self.check(path if name in ("", ".", "..") else directory or ".")
        super().remove(path)

    def remove_directory_if_empty(self, path: str) -> None:
        self.check(path)
        super().remove_directory_if_empty(path)

    def make_directories(self, path: str) -> None:
        self.check(path)
        super().make_directories(path)
