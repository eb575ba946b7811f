"""Small files of the data directory that are there whole or not at all, also after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import uuid
from collections.abc import Mapping

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.whole_files import replace_file, sync_directory

DIRECTORY_MODE = 0o700

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_DIGEST_BYTES = 32


class DamagedFile(Exception):
    """The content is not what was written."""


def make_private_directory(path: str) -> None:
    """A directory that only this user may enter, made with its parents. One that is there already and open to others is closed
    to them when it is empty, else refused (UserError SS4012): it may be meant for others. ExternalError SS5001."""
    try:
        os.makedirs(path, mode=DIRECTORY_MODE, exist_ok=True)
        found = os.stat(path)
        if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & _OTHERS:
            return
        if found.st_uid == os.geteuid() and not os.listdir(path):
            os.chmod(path, DIRECTORY_MODE)
            return
    except OSError as error:
        raise _failed("make the directory", path, error) from error
    raise UserError(
        "SS4012",
        f'the directory "{path}" is open to other users',
        hint=f"make it private (chmod 700 {path}), or give another directory",
    )


def write_file(path: str, data: bytes, *, is_durable: bool = True) -> None:
    """Replace a file at once. With `is_durable` it is on the disk on return; without, only a crash of the machine can lose it.
    ExternalError SS5001."""
    draft = f"{path}.{uuid.uuid4().hex[:8]}.draft"
    try:
        replace_file(path, draft, data, is_durable=is_durable)
    except OSError as error:
        raise _failed("write", path, error) from error


def remove_file(path: str) -> None:
    """Nothing there is fine. ExternalError SS5001."""
    try:
        os.unlink(path)
        sync_directory(os.path.dirname(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed("remove", path, error) from error


def remove_drafts(directory: str) -> None:
    """Remove what a killed process left half written. Only for the one owner of a directory."""
    for entry in os.scandir(directory):
        if entry.name.endswith(".draft"):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)


class KeptFiles:
    """Files that one server changes, and reads where they lie. No state."""

    def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
        """Write these files by their paths, or remove those that are None. ExternalError SS5001."""
        for path, data in changes.items():
            if data is None:
                remove_file(path)
            else:
                write_file(path, data, is_durable=is_durable)

    def rename(self, path: str, name: str) -> None:
        """Within its directory. OSError; ExternalError SS6077 when another server may change them."""
        os.replace(path, name)

    def check_owner(self) -> None:
        """Return when nobody but this server could change them after the call began; else ExternalError SS6077."""


def sealed(data: bytes) -> bytes:
    """The data with its digest in front."""
    return hashlib.sha256(data).digest() + data


def unsealed(data: bytes) -> bytes:
    """The inverse. DamagedFile when the data has changed since."""
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise DamagedFile("its checksum does not match")
    return content


def _failed(action: str, path: str, error: OSError) -> ExternalError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return ExternalError(
        "SS5001",
        f'could not {action} "{path}": {reason}',
        hint="give the user that runs the server access to its data directory, and room on the disk",
    )
