"""Files of definitions, each written whole or not at all, under names that keep every SQL name."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from urllib.parse import quote, unquote

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.host.whole_files import replace_file, sync_directory

DEFINITION_BYTES_MAX = 64 * 2**20
SUFFIX = ".json"
_DRAFT = ".draft-"
_DROPPED = ".dropped-"
_NAME_BYTES_MAX = 255


def file_name(name: str) -> str:
    """The name of the file or directory for an SQL name: letters, digits, `_`, `-` and `~` as they are, every other byte
    percent-encoded, so that no name is hidden or leaves its directory. UserError SS2017 when it would be too long.

    >>> file_name("orders"), file_name("../größe")
    ('orders', '%2E%2E%2Fgr%C3%B6%C3%9Fe')
    """
    try:
        encoded = quote(name, safe="").replace(".", "%2E")
    except UnicodeEncodeError:
        raise UserError("SS2017", "a name with half a character cannot be kept in a file") from None
    if len(encoded) + len(SUFFIX) > _NAME_BYTES_MAX:
        raise UserError(
            "SS2017",
            f'the name "{name}" is too long for a catalog in files',
            hint=f"a file's name holds {_NAME_BYTES_MAX - len(SUFFIX)} bytes; other than letters and digits take 3 each",
        )
    return encoded


def sql_name(encoded: str) -> str | None:
    """The SQL name that `file_name` encodes so; None for a name that it does not make."""
    try:
        name = unquote(encoded, errors="strict")
        return name if file_name(name) == encoded else None
    except (UnicodeDecodeError, UserError):
        return None


def read_definition(path: str) -> bytes:
    """The content of a file. ExternalError when it cannot be read, UserError when it is no regular file or far too large."""
    with LocalFiles().open_read(path) as stream:
        content = stream.read(DEFINITION_BYTES_MAX + 1) or b""
    if len(content) > DEFINITION_BYTES_MAX:
        raise UserError("SS5022", f'"{path}" is larger than any definition')
    return content


def write_definition(path: str, content: bytes) -> None:
    """Put a file in place at once, or replace it; when this returns, it is on the disk. Only the user can read it."""
    draft = os.path.join(os.path.dirname(path), f"{_DRAFT}{secrets.token_hex(8)}")
    try:
        replace_file(path, draft, content)
    except OSError as error:
        raise file_error("write", path, error) from error


def rename_definition(source: str, target: str) -> None:
    """Rename a file within its directory at once; when this returns, it is so on the disk."""
    try:
        os.rename(source, target)
        sync_directory(os.path.dirname(target))
    except OSError as error:
        raise file_error("rename", source, error) from error


def remove_definition(path: str) -> None:
    """Remove a file; when this returns, it is gone from the disk."""
    try:
        os.unlink(path)
        sync_directory(os.path.dirname(path))
    except OSError as error:
        raise file_error("remove", path, error) from error


def make_directory(path: str, files: dict[str, bytes], directories: tuple[str, ...]) -> None:
    """Put a directory with files and empty directories in place at once; when this returns, it is on the disk."""
    parent = os.path.dirname(path)
    draft = os.path.join(parent, f"{_DRAFT}{secrets.token_hex(8)}")
    try:
        os.mkdir(draft, 0o700)
        try:
            for name in directories:
                os.mkdir(os.path.join(draft, name), 0o700)
            for name, content in files.items():
                write_definition(os.path.join(draft, name), content)
            sync_directory(draft)
            os.rename(draft, path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        sync_directory(parent)
    except OSError as error:
        raise file_error("make directory", path, error) from error


def remove_directory(path: str) -> None:
    """Remove a directory with its content at once; when this returns, it is gone from the disk."""
    parent = os.path.dirname(path)
    dropped = os.path.join(parent, f"{_DROPPED}{secrets.token_hex(8)}")
    try:
        os.rename(path, dropped)
        sync_directory(parent)
    except OSError as error:
        raise file_error("remove", path, error) from error
    # What cannot be removed now is removed when the catalog is opened.
    shutil.rmtree(dropped, ignore_errors=True)


def remove_leftovers(root: str) -> None:
    """Remove what writers that were killed have left below a directory. Only while no other writes there."""
    for directory, directories, names in os.walk(root):
        for name in (n for n in names if n.startswith(_DRAFT)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
        for name in [n for n in directories if n.startswith((_DRAFT, _DROPPED))]:
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
            directories.remove(name)


def entries(directory: str) -> list[os.DirEntry[str]]:
    """What a directory holds, hidden entries left out; nothing when there is no such directory."""
    try:
        with os.scandir(directory) as found:
            return [e for e in found if not e.name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise file_error("list", directory, error) from error


def files_below(directory: str) -> list[str]:
    """The paths of all files below a directory, hidden ones left out."""
    return [
        os.path.join(found, name)
        for found, _, names in os.walk(directory)
        for name in names
        if not name.startswith(".")
    ]
