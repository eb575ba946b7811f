"""Which commits of files are complete, for repetitions that come long after: users may have removed the files since."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from sqlstream.runtime.host.files import file_error
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files

NOTES_MAX = 1000
"""Jobs whose commits are noted in one table; the ones that committed longest ago are forgotten."""

_BYTES_MAX = 4 << 20
_decode = msgspec.json.Decoder(dict[str, int]).decode


def note_commit(path: str, first: Committable, files: Files) -> None:
    """The commit that this committable names is complete. A file `.committed/<job>` in the table's directory has for each writer
    that named one its last checkpoint; it outlives the job, which may be gone on from."""
    place = _place(path, first.job_id)
    noted = _read(place, files)
    if not noted:
        make_room(os.path.dirname(place), files)
    noted[first.writer_id] = max(first.checkpoint_id, noted.get(first.writer_id, 0))
    replace_whole(place, msgspec.json.encode(noted), files)


def forget_commits(path: str, undone: Iterable[Committable], files: Files) -> None:
    """To be called before these are undone: what is noted as complete may lack its files in a repetition."""
    first_undone: dict[str, dict[str, int]] = {}
    for one in undone:
        of_job = first_undone.setdefault(one.job_id, {})
        of_job[one.writer_id] = min(one.checkpoint_id, of_job.get(one.writer_id, one.checkpoint_id))
    for job_id, ids in first_undone.items():
        place = _place(path, job_id)
        noted = _read(place, files)
        kept = {
            writer: min(noted_id, ids.get(writer, noted_id + 1) - 1) for writer, noted_id in noted.items()
        }
        if kept != noted:
            replace_whole(place, msgspec.json.encode(kept), files)


def is_noted(path: str, first: Committable, files: Files) -> bool:
    return _read(_place(path, first.job_id), files).get(first.writer_id, 0) >= first.checkpoint_id


def write_whole(path: str, data: bytes, files: Files) -> None:
    """A small file, which is durable when this returns. ExternalError SS5001."""
    stream = files.open_write(path)
    try:
        with stream:
            stream.write(data)
            stream.flush()
            files.sync(stream)
    except OSError as error:
        raise file_error("write", path, error) from error


def replace_whole(path: str, data: bytes, files: Files) -> None:
    """A small file that is there with these bytes or as it was, written beside it as `.draft` first."""
    draft = f"{path}.draft"
    write_whole(draft, data, files)
    files.publish(draft, path)


def _place(path: str, job_id: str) -> str:
    return os.path.join(path, ".committed", job_id)


def _read(place: str, files: Files) -> dict[str, int]:
    """Nothing for a file that is not ours: then files are missed that should not be."""
    status = files.status(place)
    if status is None or status.is_directory or status.size > _BYTES_MAX:
        return {}
    with files.open_read(place) as stream:
        try:
            return _decode(stream.read(_BYTES_MAX))
        except (msgspec.DecodeError, OSError):
            return {}


def make_room(directory: str, files: Files) -> None:
    """For the notes of one more job, in a directory with a file for each."""
    if files.status(directory) is None:
        return
    notes = sorted(files.list_files(directory), key=lambda note: note.modified_ms)
    for note in notes[: max(0, len(notes) - NOTES_MAX + 1)]:
        files.remove(note.path)
