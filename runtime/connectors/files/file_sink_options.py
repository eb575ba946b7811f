"""The options of connector `filesystem` that only a sink reads: when a file ends, when a partition is complete, which files are
joined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import is_in_store
from sqlstream.runtime.evaluate.time.local_time import from_local
from sqlstream.runtime.evaluate.time.timestamp_parser import TimestampParser
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.times import check_time_zone

if TYPE_CHECKING:
    from sqlstream.schema import Schema


POLICY = "sink.partition-commit.policy.kind"
PATTERN = "partition.time-extractor.timestamp-pattern"
FILE_SIZE = "sink.rolling-policy.file-size"
SUCCESS_FILE_NAME = "sink.partition-commit.success-file.name"
SUCCESS_FILE = "success-file"
PARTITION_TIME = "partition-time"

STORE_FILE_BYTES_MAX = 4 << 30
"""A file of a store is published by one copy, which S3 makes of 5 GB at most; a file may grow a batch beyond its size."""


@dataclass(frozen=True, kw_only=True)
class FileSinkOptions:
    file_bytes: int = option(
        FILE_SIZE,
        OptionType.MEMORY_SIZE,
        "Start a new file when one has this size. In S3 4 GB at most.",
        "128MB",
        minimum=1,
    )
    rollover_ms: int = option(
        "sink.rolling-policy.rollover-interval",
        OptionType.DURATION,
        "End a file that has been written to for so long. It is seen with the next checkpoint, which ends all files.",
        "30 min",
        minimum=1,
    )
    inactivity_ms: int = option(
        "sink.rolling-policy.inactivity-interval",
        OptionType.DURATION,
        "End a file that got no row for so long.",
        "30 min",
        minimum=1,
    )
    check_ms: int = option(
        "sink.rolling-policy.check-interval",
        OptionType.DURATION,
        "How often, at most, a writer that gets rows looks for files to end by time.",
        "1 min",
        minimum=1,
    )
    is_compacted: bool = option(
        "auto-compaction",
        OptionType.BOOLEAN,
        "Join the files of a checkpoint, those of one partition, before they are seen.",
        "false",
    )
    compacted_bytes: int | None = option(
        "compaction.file-size",
        OptionType.MEMORY_SIZE,
        "How large joined files become, about; by default as sink.rolling-policy.file-size.",
        minimum=1,
    )
    trigger: str = option(
        "sink.partition-commit.trigger",
        OptionType.ENUM,
        "When a partition is complete: when its first row is older than the delay, or when the watermark has passed its own"
        " time by the delay. Seen at checkpoints; the end of the job completes all.",
        "process-time",
        choices=("process-time", PARTITION_TIME),
    )
    delay_ms: int = option(
        "sink.partition-commit.delay",
        OptionType.DURATION,
        "The delay of the trigger; of daily partitions, say, 1 d.",
        "0 s",
        minimum=0,
    )
    policy: str | None = option(
        POLICY,
        OptionType.STRING,
        "How a complete partition is marked: success-file writes an empty file into it.",
    )
    success_file_name: str = option(
        SUCCESS_FILE_NAME,
        OptionType.STRING,
        "The name of that file; readers pass over names that begin with _ or a dot.",
        "_SUCCESS",
    )
    time_zone: str = option(
        "sink.partition-commit.watermark-time-zone",
        OptionType.STRING,
        "The time zone of the times of partitions.",
        "UTC",
    )
    extractor: str = option(
        "partition.time-extractor.kind",
        OptionType.ENUM,
        "How the time of a partition follows from its values.",
        "default",
        choices=("default",),
    )
    time_pattern: str | None = option(
        PATTERN,
        OptionType.STRING,
        "The time of a partition as text, with $column for a value: '$day $hour:00:00'. By default the first column's value.",
    )
    time_format: str = option(
        "partition.time-extractor.timestamp-formatter",
        OptionType.STRING,
        "Java's pattern by which that text is read.",
        "yyyy-MM-dd HH:mm:ss",
    )

    @staticmethod
    def of(options: Mapping[str, str]) -> FileSinkOptions:
        return parse_options(FileSinkOptions, options)

    @property
    def marks_partitions(self) -> bool:
        return self.policy is not None


def check_sink_options(
    table: str, schema: Schema, options: Mapping[str, str], partition_keys: tuple[str, ...]
) -> None:
    """UserError SS4002, SS4003 for options that do not fit each other or the table."""
    parsed = FileSinkOptions.of(options)
    given = [d.key for d in descriptors_of(FileSinkOptions) if d.key in options]
    _check_size(table, options, parsed)
    if "compaction.file-size" in given and not parsed.is_compacted:
        raise _without(table, "compaction.file-size", "auto-compaction", "true")
    if parsed.policy is None:
        # As in Flink, what says when a partition is complete has no effect where nobody is told.
        return
    _check_policy(table, parsed)
    if not partition_keys:
        raise UserError(
            "SS4003",
            f'option "{POLICY}" of table "{table}" has no use: the table has no partitions',
            hint="add PARTITIONED BY, or leave the option out",
        )
    if parsed.trigger == PARTITION_TIME:
        _check_time(table, options, parsed, partition_keys)


def _check_size(table: str, options: Mapping[str, str], parsed: FileSinkOptions) -> None:
    largest = max(parsed.file_bytes, parsed.compacted_bytes or 0)
    if is_in_store(options["path"]) and largest > STORE_FILE_BYTES_MAX:
        key = FILE_SIZE if parsed.file_bytes == largest else "compaction.file-size"
        raise UserError(
            "SS4002",
            f'option "{key}" of table "{table}" is larger than 4 GB, the most for a file of a store',
            hint="write a smaller size",
        )


def _check_policy(table: str, parsed: FileSinkOptions) -> None:
    kinds = [kind.strip().lower() for kind in (parsed.policy or "").split(",")]
    if kinds != [SUCCESS_FILE]:
        raise UserError(
            "SS4002",
            f'option "{POLICY}" of table "{table}" is "{parsed.policy}": partitions are marked by success-file alone',
            hint=f"write '{SUCCESS_FILE}'; there is no metastore that knows the partitions",
        )
    name = parsed.success_file_name
    if "/" in name or "\0" in name or "=" in name or not name.startswith(("_", ".")) or len(name) < 2:
        raise UserError(
            "SS4002",
            f'option "{SUCCESS_FILE_NAME}" of table "{table}" is "{name}", which readers would take for a file of rows',
            hint="write a name that begins with _, such as _SUCCESS",
        )


def _check_time(
    table: str, options: Mapping[str, str], parsed: FileSinkOptions, partition_keys: tuple[str, ...]
) -> None:
    unknown = PartitionTime(parsed, partition_keys).unknown_columns()
    if unknown:
        raise UserError(
            "SS4002",
            f'option "{PATTERN}" of table "{table}" names "${unknown[0]}", which the table is not partitioned by',
            hint=f"its partitions have {', '.join('$' + key for key in partition_keys)}",
        )


def _without(table: str, key: str, other: str, value: str) -> UserError:
    return UserError(
        "SS4003",
        f'option "{key}" of table "{table}" has no use without "{other}"',
        hint=f"add '{other}' = '{value}', or leave it out",
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
