"""The options of connector `filesystem`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import DEFAULT_PARTITION_NAME
from sqlstream.runtime.connectors.rejected_rows import bytes_max_option, retention_option
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.host.file_systems import Change, change_of, is_in_store
from sqlstream.spi.connector import READS, REJECTED_ROWS, REJECTED_ROWS_PATH, OptionType
from sqlstream.spi.format import FormatDescriptor
from sqlstream.spi.table_options import option, parse_options

MONITOR_INTERVAL = "source.monitor-interval"

_READS_ROWS = "rows"


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    path: str = option(
        "path",
        OptionType.STRING,
        "A file, a directory with all files below it, or for reading a pattern with *, ?, […] and **.",
        is_required=True,
    )
    monitor_interval_ms: int | None = option(
        MONITOR_INTERVAL,
        OptionType.DURATION,
        "Look for further files this often; the table then has no end.",
        minimum=1,
    )
    # Each open file has a decoded block in memory, a few megabytes; more files than the default rarely overlap in time.
    open_files_max: int = option(
        "source.open-files.max",
        OptionType.INTEGER,
        "How many files that overlap in event time one subtask reads side by side.",
        "16",
        minimum=1,
    )
    path_pattern: str | None = option(
        "source.path.regex-pattern",
        OptionType.STRING,
        "Read only files whose whole path matches this regular expression.",
    )
    rejected_rows_path: str | None = option(
        REJECTED_ROWS_PATH,
        OptionType.STRING,
        "Directory for rows that could not be decoded; empty keeps none and shows the first ones. By default of SELECT"
        " empty, of INSERT `_<name>.rejected` beside the table's path.",
    )
    rejected_rows_bytes_max: int = bytes_max_option()
    rejected_rows_retention_ms: int = retention_option()
    reads: str = option(
        READS,
        OptionType.ENUM,
        "What is read: the rows of the files, or those that could not be decoded, as table `t$errors` has them.",
        _READS_ROWS,
        choices=(_READS_ROWS, REJECTED_ROWS),
    )
    default_partition_name: str = option(
        "partition.default-name",
        OptionType.STRING,
        "The directory value of a partition whose column is NULL or empty.",
        DEFAULT_PARTITION_NAME,
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks write.", minimum=1
    )

    @property
    def reads_rejected_rows(self) -> bool:
        return self.reads == REJECTED_ROWS

    @staticmethod
    def of(options: Mapping[str, str]) -> FileOptions:
        return parse_options(FileOptions, options)


# The options of connector `filesystem` that only a sink reads: when a file ends, when a partition is complete, which
# files are joined.


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


def check_files(table: str, options: Mapping[str, str]) -> None:
    """UserError SS4002, SS4003 for sizes of files that do not fit each other or the table's place, and for files that cannot be
    joined."""
    parsed = FileSinkOptions.of(options)
    _check_size(table, options, parsed)
    if is_in_store(options["path"]) and options.get(REJECTED_ROWS_PATH):
        raise UserError(
            "SS4003",
            f'option "{REJECTED_ROWS_PATH}" of table "{table}" has no use: rows of files in a store are not kept',
            option=REJECTED_ROWS_PATH,
            hint="leave it out: rows that could not be decoded are counted, and the first ones shown",
        )
    if "compaction.file-size" in options and not parsed.is_compacted:
        raise UserError(
            "SS4003",
            f'option "compaction.file-size" of table "{table}" has no use without "auto-compaction"',
            option="compaction.file-size",
            hint="add 'auto-compaction' = 'true', or leave it out",
        )
    if parsed.is_compacted:
        _check_joined(table, format_of(options["format"]).descriptor)


def _check_joined(table: str, form: FormatDescriptor) -> None:
    if not form.is_text and not form.sink_mode.is_insert_only:
        raise UserError(
            "SS4002",
            f'option "auto-compaction" of table "{table}" is true, but files of changes in format "{form.identifier}" cannot be '
            "joined",
            option="auto-compaction",
            hint="leave the option out, or write another format",
        )


def _check_size(table: str, options: Mapping[str, str], parsed: FileSinkOptions) -> None:
    largest = max(parsed.file_bytes, parsed.compacted_bytes or 0)
    if change_of(options["path"]) is Change.COPY and largest > STORE_FILE_BYTES_MAX:
        key = FILE_SIZE if parsed.file_bytes == largest else "compaction.file-size"
        raise UserError(
            "SS4002",
            f'option "{key}" of table "{table}" is larger than 4 GB, the most for a file of a store',
            option=key,
            hint="write a smaller size",
        )
