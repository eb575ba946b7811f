"""Marks the partitions that a job has completed, by a file in each."""

from __future__ import annotations

import logging
import os

import msgspec

from runtime.connectors.committed_notes import write_whole
from runtime.connectors.file_paths import partition_values
from runtime.connectors.file_sink_options import PARTITION_TIME, FileSinkOptions
from runtime.connectors.partition_time import PartitionTime
from sqlstream.elements import WATERMARK_MIN
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

WATERMARK = "watermark_ms"
"""In a committable, the watermark that its writer had reached."""

_NOTES_BYTES_MAX = 64 << 20
_decode = msgspec.json.Decoder(dict[str, int]).decode


def notes_path(path: str, job_id: str) -> str:
    """Where a job notes, within the table's directory, which partitions are not marked yet; readers pass over it."""
    return os.path.join(path, f".partitions-{job_id}")


class PartitionMarks:
    """Called after each commit of a job's files. A partition is marked when its trigger says so, and again when further rows have
    come into it; a repetition marks the same ones again, which changes nothing.

    State: a file of the job, with the partitions that are not marked and when each was first seen."""

    def __init__(
        self, path: str, options: FileSinkOptions, partition_keys: tuple[str, ...], files: Files
    ) -> None:
        self._path = path
        self._options = options
        self._files = files
        is_by_time = options.trigger == PARTITION_TIME
        self._time = PartitionTime(options, partition_keys) if is_by_time else None

    def update(self, checkpoint_id: int, committables: list[Committable], now_ms: int) -> None:
        """Note the partitions of a commit, and mark those that are complete."""
        if not committables:
            return
        notes = notes_path(self._path, committables[0].job_id)
        before = self._read(notes)
        waiting = dict(before)
        for committable in committables:
            for file in committable.content["files"]:
                waiting.setdefault(os.path.relpath(os.path.dirname(file["final"]), self._path), now_ms)
        is_last = checkpoint_id == LAST_CHECKPOINT_ID
        watermark_ms = _watermark_ms(committables)
        for partition, since_ms in list(waiting.items()):
            if is_last or self._is_complete(partition, since_ms, watermark_ms, now_ms):
                self._mark(partition)
                del waiting[partition]
        if waiting != before:
            self._write(notes, waiting)

    def _is_complete(self, partition: str, since_ms: int, watermark_ms: int, now_ms: int) -> bool:
        if self._time is None:
            return now_ms >= since_ms + self._options.delay_ms
        values = partition_values(os.path.join(self._path, partition, "file"), self._path)
        time_ms = self._time.of_ms(values)
        # A partition without a time, such as that of NULL, is complete with the job.
        return time_ms is not None and watermark_ms >= time_ms + self._options.delay_ms

    def _mark(self, partition: str) -> None:
        write_whole(os.path.join(self._path, partition, self._options.success_file_name), b"", self._files)

    def _read(self, notes: str) -> dict[str, int]:
        status = self._files.status(notes)
        if status is None:
            return {}
        try:
            if status.size > _NOTES_BYTES_MAX:
                raise ValueError("it is too large")
            with self._files.open_read(notes) as stream:
                return _decode(stream.read(_NOTES_BYTES_MAX))
        except (msgspec.DecodeError, ValueError, OSError) as error:
            # Its partitions are marked when further rows come, or not at all: rows are never lost by it.
            logger.warning('could not use the notes of partitions "%s": %s', notes, error)
            return {}

    def _write(self, notes: str, waiting: dict[str, int]) -> None:
        if not waiting:
            self._files.remove(notes)
            return
        draft = f"{notes}.draft"
        write_whole(draft, msgspec.json.encode(waiting), self._files)
        self._files.publish(draft, notes)


def remove_notes(path: str, job_id: str, files: Files) -> None:
    for notes in (notes_path(path, job_id), f"{notes_path(path, job_id)}.draft"):
        files.remove(notes)


def _watermark_ms(committables: list[Committable]) -> int:
    """The least of what the writers say last."""
    newest: dict[str, tuple[int, int]] = {}
    for c in committables:
        said = (c.checkpoint_id, c.content.get(WATERMARK, WATERMARK_MIN))
        newest[c.writer_id] = max(newest.get(c.writer_id, said), said)
    return min(watermark_ms for _, watermark_ms in newest.values())
