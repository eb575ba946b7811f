"""Marks the partitions that a job has completed, by a file in each."""

from __future__ import annotations

import logging
import os

import msgspec

from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.connectors.files.committed_notes import make_room, replace_whole, write_whole
from sqlstream.runtime.connectors.files.file_paths import partition_values
from sqlstream.runtime.connectors.files.file_sink_options import (
    PARTITION_TIME,
    FileSinkOptions,
    PartitionTime,
)
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

WATERMARK = "watermark_ms"
"""In a committable, the watermark that its writer had reached."""

_NOTES_BYTES_MAX = 64 << 20


class Notes(msgspec.Struct, frozen=True):
    """What a job knows of the partitions of a table: those that are not marked, with when each was first seen, and the job whose
    checkpoint it began with, until it has looked at the notes of that one."""

    waiting: dict[str, int]
    begun_by: str = ""


_decode = msgspec.json.Decoder(Notes).decode


def notes_path(path: str, job_id: str) -> str:
    """Where a job keeps its notes, within the table's directory; readers pass over it."""
    return os.path.join(path, ".partitions", job_id)


class PartitionMarks:
    """Called after each commit of a job's files. A partition is marked when its trigger says so, and again when further rows have
    come into it; a repetition marks the same ones again, which changes nothing.

    State: a file of the job, its Notes, as long as a partition waits. It stays when the job ends otherwise than by the end of its
    input, since another may go on from its checkpoint."""

    def __init__(
        self, path: str, options: FileSinkOptions, partition_keys: tuple[str, ...], files: Files
    ) -> None:
        self._path = path
        self._options = options
        self._files = files
        is_by_time = options.trigger == PARTITION_TIME
        self._time = PartitionTime(options, partition_keys) if is_by_time else None

    def begin_with(self, earlier_job_id: str, job_id: str) -> None:
        """A job begins with a checkpoint of an earlier one, whose partitions it marks too. That one may still commit."""
        if job_id != earlier_job_id and not self._read(job_id).waiting:
            self._write(job_id, Notes({}, earlier_job_id))

    def update(self, checkpoint_id: int, committables: list[Committable], now_ms: int) -> None:
        """Note the partitions of a commit, and mark those that are complete."""
        if not committables:
            return
        job_id = committables[0].job_id
        before = self._read(job_id)
        waiting = {**self._inherited(before.begun_by), **before.waiting}
        for committable in committables:
            for file in committable.content["files"]:
                waiting.setdefault(os.path.relpath(os.path.dirname(file["final"]), self._path), now_ms)
        is_last = checkpoint_id == LAST_CHECKPOINT_ID
        watermark_ms = _watermark_ms(committables)
        for partition, since_ms in list(waiting.items()):
            if is_last or self._is_complete(partition, since_ms, watermark_ms, now_ms):
                self._mark(partition)
                del waiting[partition]
        after = Notes(waiting)
        if after != before or is_last:
            self._write(job_id, after)

    def _inherited(self, job_id: str) -> dict[str, int]:
        """What waits in the notes of a job, and of those before it that it has not looked at."""
        waiting: dict[str, int] = {}
        seen = {""}
        while job_id not in seen:
            seen.add(job_id)
            notes = self._read(job_id)
            waiting, job_id = {**notes.waiting, **waiting}, notes.begun_by
        return waiting

    def _is_complete(self, partition: str, since_ms: int, watermark_ms: int, now_ms: int) -> bool:
        if self._time is None:
            return now_ms >= since_ms + self._options.delay_ms
        values = partition_values(os.path.join(self._path, partition, "file"), self._path)
        time_ms = self._time.of_ms(values)
        # A partition without a time, such as that of NULL, is complete with the job.
        return time_ms is not None and watermark_ms >= time_ms + self._options.delay_ms

    def _mark(self, partition: str) -> None:
        write_whole(os.path.join(self._path, partition, self._options.success_file_name), b"", self._files)

    def _read(self, job_id: str) -> Notes:
        notes = notes_path(self._path, job_id)
        # A manifest may name any job, and none is called so.
        is_name = job_id not in ("", ".", "..") and "/" not in job_id and "\0" not in job_id
        status = self._files.status(notes) if is_name else None
        if status is None or status.is_directory:
            return Notes({})
        try:
            if status.size > _NOTES_BYTES_MAX:
                raise ValueError("it is too large")
            with self._files.open_read(notes) as stream:
                return _decode(stream.read(_NOTES_BYTES_MAX))
        except (msgspec.DecodeError, ValueError, OSError) as error:
            # Its partitions are marked when further rows come, or not at all: rows are never lost by it.
            logger.warning('could not use the notes of partitions "%s": %s', notes, error)
            return Notes({})

    def _write(self, job_id: str, notes: Notes) -> None:
        place = notes_path(self._path, job_id)
        directory = os.path.dirname(place)
        if not notes.waiting and not notes.begun_by:
            self._files.remove(place)
            self._files.remove(f"{place}.draft")
            self._files.remove_directory_if_empty(directory)
            return
        if self._files.status(place) is None:
            make_room(directory, self._files)
        replace_whole(place, msgspec.json.encode(notes), self._files)


def _watermark_ms(committables: list[Committable]) -> int:
    """The least of what the writers say last."""
    newest: dict[str, tuple[int, int]] = {}
    for c in committables:
        said = (c.checkpoint_id, c.content.get(WATERMARK, WATERMARK_MIN))
        newest[c.writer_id] = max(newest.get(c.writer_id, said), said)
    return min(watermark_ms for _, watermark_ms in newest.values())
