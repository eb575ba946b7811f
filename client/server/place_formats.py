"""What the directory of a server says of the formats in it, so that no release touches what it cannot read."""

from __future__ import annotations

import contextlib
import os

import msgspec

from sqlstream import __version__
from sqlstream.bounds import Count
from sqlstream.client.server.kept_file import write_file
from sqlstream.client.server.leaders.record_store import Conflict, RecordStore
from sqlstream.errors import ExternalError, UserError, reason_of_error
from sqlstream.kept_formats import OF_A_PLACE, KeptFormat

FORMATS_FILE = "formats.json"
_BYTES_MAX = 1 << 20
_KEY = "formats"


class PlaceFormats(msgspec.Struct, frozen=True):
    """`release` is the last that has used the directory, `formats` what it writes there."""

    release: str
    formats: dict[str, Count]
    version: Count = 1


OURS = PlaceFormats(__version__, {known.name: known.version for known in OF_A_PLACE})


def read_formats(directory: str) -> PlaceFormats | None:
    """None where no release has written them: 0.1.0 writes none. ExternalError SS5001 when they cannot be read."""
    path = os.path.join(directory, FORMATS_FILE)
    try:
        with open(path, "rb") as stream:
            return msgspec.json.decode(stream.read(_BYTES_MAX), type=PlaceFormats)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ExternalError(
            "SS5001",
            f'could not read "{path}": {reason_of_error(error)}',
            hint="bring back the directory from a backup",
        ) from error


def check_formats(directory: str) -> PlaceFormats | None:
    """What is in the directory. UserError SS6140, before anything there is changed, for what this release cannot read."""
    found = read_formats(directory)
    if found is not None:
        _check(found, directory)
    return found


def _check(found: PlaceFormats, where: str) -> None:
    known = {one.name: one for one in OF_A_PLACE}
    for name, version in {**found.formats, "formats": found.version}.items():
        one = known.get(name) or KeptFormat(name, 1 if name == "formats" else 0)
        if not one.reads(version):
            text, hint = one.refusal(version, found.release)
            raise UserError("SS6140", f'"{where}" was {text}', hint=hint)


def put_formats(directory: str) -> None:
    """Say that this release uses the directory."""
    if check_formats(directory) != OURS:
        content = msgspec.json.format(msgspec.json.encode(OURS), indent=2)
        write_file(os.path.join(directory, FORMATS_FILE), content + b"\n")


# The same of what servers share in a store.


def check_record(records: RecordStore, where: str) -> None:
    """UserError SS6140 for records that this release cannot read; ExternalError SS6080, SS6081."""
    found = records.read(_KEY)
    if found is None:
        return
    try:
        formats = msgspec.json.decode(found.data, type=PlaceFormats)
    except msgspec.DecodeError as error:
        raise ExternalError("SS6081", f'could not read the record "{_KEY}" of "{where}": {error}') from error
    _check(formats, where)


def put_record(records: RecordStore) -> None:
    """Say that this release uses the records. For the server that leads."""
    content = msgspec.json.encode(OURS)
    while (found := records.read(_KEY)) is None or found.data != content:
        with contextlib.suppress(Conflict):
            records.write(_KEY, content, found.version if found is not None else None)
