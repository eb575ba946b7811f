"""The files that connectors, formats and commits reach: those of the local disk, or of a store elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from sqlstream.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa


PLACED_UNKNOWN = (1 << 63) - 1


class FileStatus(msgspec.Struct, frozen=True):
    """`placed_ms` is when the file came to this path, or later, by the clock of the store."""

    path: str
    size: int
    modified_ms: int
    is_directory: bool = False
    placed_ms: int = PLACED_UNKNOWN


def is_hidden(name: str) -> bool:
    """Whether readers of tables pass over a file or directory: `.x` and `_x`, but not the partition `_x=1`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class Files(Protocol):
    """A store of files. Failures are ExternalError SS5001 that names the path, unless a method says otherwise.

    Commits need this of a store: a file is at its name whole or not at all once it is closed and synced, or published; what is
    published can be published again; and what is listed is what is there. They need neither a rename of directories nor a
    publication of several files at once. Directories come with the files in them; a store may have none of its own.
    """

    def require_database_servers(self) -> None:
        """UserError SS5031 where tables may not lie on other servers."""

    def require_callable(self, host: str, address: str) -> None:
        """UserError SS5341 where tables may not call this address, to which the name of a host has led."""

    def require_owner(self) -> None:
        """To be called between a look at what is staged elsewhere, such as in a database, and its removal. ExternalError SS6077
        where another server may own it by now."""
        return

    def guarding(self, other: Files) -> Files:
        """Files of another store, for the same purpose."""
        return other

    # --- reading

    def open_read(self, path: str) -> BinaryIO:
        """A regular file. UserError SS5017 for a pipe, socket or device, which could block for ever or never end."""

    def map_read(self, path: str) -> pa.NativeFile:
        """A regular file for random access, whose bytes are in memory only while they are used. UserError SS5017 as above."""

    def handed_on(self, path: str) -> str:
        """The whole path under which an engine of another's making is to open the file."""

    def absolute(self, path: str) -> str:
        """The whole path, as users see it."""

    # --- writing

    def open_write(self, path: str) -> BinaryIO:
        """A new file, its directories made; an existing one is replaced. It may be there only once it is closed."""

    def sync(self, stream: BinaryIO) -> None:
        """What was written will survive a crash of the machine once the stream is closed. OSError, as from the stream itself."""

    def sync_directory(self, path: str) -> None:
        """The names in a directory, the published and the removed ones, will survive a crash of the machine."""

    def publish(self, staged: str, final: str) -> None:
        """Put a file that is complete at its final name, whole and at once; an existing one there is replaced. When the process
        dies within, both names may have it: it is published again, or both are removed."""

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; nothing there is fine, and so is what cannot be there."""

    def remove_directory_if_empty(self, path: str) -> None:
        """Leave anything but an empty directory unchanged."""

    def make_directories(self, path: str) -> None: ...

    def lock(self, path: str) -> BinaryIO | None:
        """The file, opened for reading and locked until it is closed or this process ends, however it ends. None when another
        process has locked it, when it was removed, and where the store has no locks: there nobody removes what others may use.
        UserError SS5017 when it is no regular file."""

    # --- looking

    def status(self, path: str) -> FileStatus | None:
        """None when nothing exists at the path, or nothing can exist there."""

    def list_files(self, directory: str) -> list[FileStatus]:
        """All files below a directory, in order of their paths; hidden ones and their contents are left out. Links to files and
        directories are followed, unless they lead back to a directory above."""

    def list_names(self, directory: str, names_max: int) -> list[tuple[str, bool]]:
        """Names in a directory, the first `names_max` that the store gives, and whether each is a directory; hidden ones are left
        out."""

    def match_glob(self, pattern: str) -> list[str]:
        """Paths that fit a pattern with `*`, `?`, `[…]` and `**`, in order; links are followed as above."""

    def name_bytes_max(self, directory: str) -> int:
        """How many bytes the name of a file or directory may have in a directory, which need not exist yet."""

    def require_writable(self, directory: str) -> None:
        """ExternalError, whose reason is ACCESS_REFUSED, where no file can be made in a directory, which need not exist yet.
        A store that tells so by refusing a file alone is not asked."""

    def path_bytes_max(self) -> int:
        """How many bytes a whole path may have."""


def refuse_home(path: str, what: str, option: str = "") -> None:
    """UserError SS4002 for `~` and `~/x`: only shells know whose home is meant, and a server has another one than its users."""
    if path.partition("/")[0] == "~":
        raise UserError(
            "SS4002",
            f'{what} begins with ~, which stands for no directory here: "{path}"',
            option=option,
            hint="write the directory's own path, such as /home/me; ./~ is one that is called ~",
        )
