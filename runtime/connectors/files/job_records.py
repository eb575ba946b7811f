"""What a table's log keeps of each job: the commits that are complete, and the partitions that are not.

A record is the file `.committed/<job>` in the table's directory. It outlives the job, which may be gone on from: a repetition
that comes long after finds that its commit is complete, although users may have removed the files since.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from sqlstream.errors import UserError
from sqlstream.kept_formats import TABLE_LOGS
from sqlstream.runtime.host.file_systems import escape_pattern
from sqlstream.runtime.host.files import file_error, list_if_there
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

DIRECTORY = ".committed"

RECORDS_MAX = 1000
"""Jobs with a record in one table; those that committed longest ago are forgotten."""

_BYTES_MAX = 64 << 20
_SIZES = 64


class JobRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`commits` has for each writer that named one the last checkpoint; `has_replaced` when one of them has removed files.

    A record of another `version` is refused: its commits are not known. `waiting` are the partitions that are not marked, with
    when each was first seen. `begun_by` is the job whose checkpoint this one began with, until it has taken over the partitions
    that wait there."""

    commits: dict[str, int] = {}
    waiting: dict[str, int] = {}
    begun_by: str = ""
    has_replaced: bool = False
    version: int = TABLE_LOGS.version

    def has(self, commit: Committable) -> bool:
        return self.commits.get(commit.writer_id, 0) >= commit.checkpoint_id

    def with_commit(self, commit: Committable, *, replaces: bool) -> JobRecord:
        newest = max(commit.checkpoint_id, self.commits.get(commit.writer_id, 0))
        return replace(
            self,
            commits={**self.commits, commit.writer_id: newest},
            has_replaced=self.has_replaced or replaces,
        )


_decode = msgspec.json.Decoder(JobRecord).decode
_decode_commits = msgspec.json.Decoder(dict[str, int]).decode


class JobRecords:
    """The records of the table at `path`. No state but these files."""

    def __init__(self, path: str, files: Files) -> None:
        self._path = path
        self._directory = os.path.join(path, DIRECTORY)
        self._files = files

    def of(self, job_id: str) -> JobRecord:
        """UserError SS6140 for one of a later release. An empty one for a file that is not ours: then files are missed that
        should not be, and partitions are marked when further rows come, or not at all."""
        # A manifest may name any job, and none is called so.
        is_name = job_id not in ("", ".", "..") and "/" not in job_id and "\0" not in job_id
        place = os.path.join(self._directory, job_id)
        status = self._files.status(place) if is_name else None
        if status is None or status.is_directory:
            return JobRecord()
        try:
            with self._files.open_read(place) as stream:
                data = stream.read(_BYTES_MAX + 1)
        except OSError as error:
            raise file_error("read", place, error) from error
        try:
            if len(data) > _BYTES_MAX:
                raise ValueError("it is too large")
            _check_version(place, data)
            return _decoded(data)
        except (msgspec.DecodeError, ValueError) as error:
            logger.warning('could not use the record "%s" of a job: %s', place, error)
            return JobRecord()

    def put(self, job_id: str, record: JobRecord) -> None:
        """The record is there as it was or as it is now, and durable when this returns. An empty one is removed."""
        place, draft = (os.path.join(self._directory, name) for name in (job_id, f".{job_id}.draft"))
        if record == JobRecord():
            self._files.remove(place)
            self._files.remove(draft)
            self._files.remove_directory_if_empty(self._directory)
            return
        status, encoded = self._files.status(place), msgspec.json.encode(record)
        is_new = status is None
        if status is None:
            self._make_room()
        else:
            # Readers know by time and size that it has changed, and a store's clock may tick once a second.
            encoded = encoded.ljust(len(encoded) + (status.size + 1 - len(encoded)) % _SIZES)
        write_whole(draft, encoded, self._files)
        self._files.publish(draft, place)
        self._files.sync_directory(self._directory)
        if is_new:
            self._files.sync_directory(self._path)

    def forget(self, undone: Iterable[Committable]) -> None:
        """To be called before these are undone: what is noted as complete may lack its files in a repetition."""
        first_undone: dict[str, dict[str, int]] = {}
        for one in undone:
            of_job = first_undone.setdefault(one.job_id, {})
            of_job[one.writer_id] = min(one.checkpoint_id, of_job.get(one.writer_id, one.checkpoint_id))
        for job_id, ids in first_undone.items():
            record = self.of(job_id)
            kept = {w: min(noted, ids.get(w, noted + 1) - 1) for w, noted in record.commits.items()}
            if kept != record.commits:
                self.put(job_id, replace(record, commits=kept))

    def _make_room(self) -> None:
        """For one more job. A commit that broke off is told from one that is complete by its record, which therefore stays."""
        records = sorted(list_if_there(self._directory, self._files), key=lambda record: record.modified_ms)
        for record in records[: max(0, len(records) - RECORDS_MAX + 1)]:
            manifest = os.path.join(self._path, f".commit-{os.path.basename(record.path)}-")
            if not self._files.match_glob(f"{escape_pattern(manifest)}*"):
                self._files.remove(record.path)


class _Head(msgspec.Struct, frozen=True):
    version: int = TABLE_LOGS.version


def _check_version(place: str, data: bytes) -> None:
    version = msgspec.json.decode(data, type=_Head).version
    if not TABLE_LOGS.reads(version):
        problem, hint = TABLE_LOGS.refusal(version)
        raise UserError("SS6140", f'"{place}" was {problem}', hint=hint)


def _decoded(data: bytes) -> JobRecord:
    try:
        return _decode(data)
    except msgspec.ValidationError:
        # A record may be the commits alone.
        return JobRecord(_decode_commits(data))


@contextlib.contextmanager
def written_whole(path: str, files: Files, named: str = "") -> Iterator[BinaryIO]:
    """A new file to write to, which is durable at the end. ExternalError SS5001, about the file `named`."""
    stream = files.open_write(path)
    try:
        with stream:
            yield stream
            stream.flush()
            files.sync(stream)
    except OSError as error:
        raise file_error("write", named or path, error) from error


def write_whole(path: str, data: bytes, files: Files) -> None:
    """A small file, which is durable when this returns. ExternalError SS5001."""
    with written_whole(path, files) as stream:
        stream.write(data)
