"""Marks the partitions that a job has completed, by a file in each; the options about marks, and the times of partitions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pyarrow as pa
from msgspec.structs import replace

from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_options import (
    PARTITION_TIME,
    PATTERN,
    POLICY,
    SUCCESS_FILE,
    SUCCESS_FILE_NAME,
    FileSinkOptions,
)
from sqlstream.runtime.connectors.files.file_paths import partition_values
from sqlstream.runtime.connectors.files.job_records import JobRecords, write_whole
from sqlstream.runtime.evaluate.time.local_time import from_local
from sqlstream.runtime.evaluate.time.timestamp_parser import TimestampParser
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.files import Files
from sqlstream.times import check_time_zone

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


# The options about marks.


def check_marks(table: str, options: Mapping[str, str], partition_keys: tuple[str, ...]) -> None:
    """UserError SS4002, SS4003 for options about marks that do not fit each other or the table."""
    parsed = FileSinkOptions.of(options)
    if parsed.policy is None:
        # As in Flink, what says when a partition is complete has no effect where nobody is told.
        return
    _check_policy(table, parsed)
    if not partition_keys:
        raise UserError(
            "SS4003",
            f'option "{POLICY}" of table "{table}" has no use: the table has no partitions',
            option=POLICY,
            hint="add PARTITIONED BY, or leave the option out",
        )
    if parsed.trigger == PARTITION_TIME:
        _check_time(table, parsed, partition_keys)


def _check_policy(table: str, parsed: FileSinkOptions) -> None:
    kinds = [kind.strip().lower() for kind in (parsed.policy or "").split(",")]
    if kinds != [SUCCESS_FILE]:
        raise UserError(
            "SS4002",
            f'option "{POLICY}" of table "{table}" is "{parsed.policy}": partitions are marked by success-file alone',
            option=POLICY,
            hint=f"write '{SUCCESS_FILE}'; there is no metastore that knows the partitions",
        )
    name = parsed.success_file_name
    if "/" in name or "\0" in name or "=" in name or not name.startswith(("_", ".")) or len(name) < 2:
        raise UserError(
            "SS4002",
            f'option "{SUCCESS_FILE_NAME}" of table "{table}" is "{name}", which readers would take for a file of rows',
            option=SUCCESS_FILE_NAME,
            hint="write a name that begins with _, such as _SUCCESS",
        )


def _check_time(table: str, parsed: FileSinkOptions, partition_keys: tuple[str, ...]) -> None:
    unknown = PartitionTime(parsed, partition_keys).unknown_columns()
    if unknown:
        raise UserError(
            "SS4002",
            f'option "{PATTERN}" of table "{table}" names "${unknown[0]}", which the table is not partitioned by',
            option=PATTERN,
            hint=f"its partitions have {', '.join('$' + key for key in partition_keys)}",
        )


# The time that the values of a partition stand for.


_COLUMN = re.compile(r"\$(\w+)")


class PartitionTime:
    """Reads it as Flink's `partition.time-extractor.kind` = 'default' does. UserError for a pattern or a time zone that is none.
    No state."""

    def __init__(self, options: FileSinkOptions, partition_keys: tuple[str, ...]) -> None:
        self._keys = partition_keys
        self._pattern = options.time_pattern or f"${partition_keys[0]}"
        self._zone = check_time_zone(options.time_zone)
        self._parsers = [TimestampParser.of_pattern(options.time_format)]
        # Flink reads a date alone too.
        self._parsers.append(TimestampParser.of_sql_timestamp())

    def unknown_columns(self) -> list[str]:
        """Names after `$` that begin with no column of the partitions."""
        return [name for name in _COLUMN.findall(self._pattern) if not any(map(name.startswith, self._keys))]

    def of_ms(self, values: dict[str, str]) -> int | None:
        """Milliseconds since the epoch; None for values that are no time."""
        text = self._pattern
        # Longer names first: $day_of_year is not $day.
        for key in sorted(self._keys, key=len, reverse=True):
            text = text.replace(f"${key}", values.get(key, ""))
        for parser in self._parsers:
            local = parser.parse(pa.array([text], pa.string())).timestamps("ms")
            if local.null_count == 0:
                return int(
                    from_local(local, pa.timestamp("ms", tz="UTC"), self._zone).cast(pa.int64())[0].as_py()
                )
        return None
