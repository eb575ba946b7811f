"""Marks the partitions that a job has completed, by a file in each."""

from __future__ import annotations

import os

from msgspec.structs import replace

from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.connectors.files.file_paths import partition_values
from sqlstream.runtime.connectors.files.file_sink_options import (
    PARTITION_TIME,
    FileSinkOptions,
    PartitionTime,
)
from sqlstream.runtime.connectors.files.job_records import JobRecords, write_whole
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.files import Files

WATERMARK = "watermark_ms"
"""In a committable, the watermark that its writer had reached."""


class PartitionMarks:
    """Called after each commit of a job's files. A partition is marked when its trigger says so, and again when further rows have
    come into it; a repetition marks the same ones again, which changes nothing.

    State: the partitions that wait, in the record of the job (job_records.py). They stay when the job ends otherwise than by
    the end of its input, since another may go on from its checkpoint."""

    def __init__(
        self, path: str, options: FileSinkOptions, partition_keys: tuple[str, ...], files: Files
    ) -> None:
        self._path = path
        self._options = options
        self._files = files
        self._records = JobRecords(path, files)
        is_by_time = options.trigger == PARTITION_TIME
        self._time = PartitionTime(options, partition_keys) if is_by_time else None

    def begin_with(self, earlier_job_id: str, job_id: str) -> None:
        """A job begins with a checkpoint of an earlier one, whose partitions it marks too. That one may still commit."""
        record = self._records.of(job_id)
        if job_id != earlier_job_id and not record.waiting:
            self._records.put(job_id, replace(record, begun_by=earlier_job_id))

    def update(self, checkpoint_id: int, committables: list[Committable], now_ms: int) -> None:
        """Note the partitions of a commit, and mark those that are complete."""
        if not committables:
            return
        job_id = committables[0].job_id
        before = self._records.of(job_id)
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
        after = replace(before, waiting=waiting, begun_by="")
        if after != before or is_last:
            self._records.put(job_id, after)

    def _inherited(self, job_id: str) -> dict[str, int]:
        """What waits in the record of a job, and of those before it that it has not looked at."""
        waiting: dict[str, int] = {}
        seen = {""}
        while job_id not in seen:
            seen.add(job_id)
            record = self._records.of(job_id)
            waiting, job_id = {**record.waiting, **waiting}, record.begun_by
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


def _watermark_ms(committables: list[Committable]) -> int:
    """The least of what the writers say last."""
    newest: dict[str, tuple[int, int]] = {}
    for c in committables:
        said = (c.checkpoint_id, c.content.get(WATERMARK, WATERMARK_MIN))
        newest[c.writer_id] = max(newest.get(c.writer_id, said), said)
    return min(watermark_ms for _, watermark_ms in newest.values())
