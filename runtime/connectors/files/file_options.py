"""The options of connector `filesystem`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.runtime.connectors.files.file_paths import DEFAULT_PARTITION_NAME
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import option, parse_options

REJECTED_ROWS_PATH = "source.rejected-rows.path"
"""The option that names the directory of undecodable rows; empty, no rows are kept."""

MONITOR_INTERVAL = "source.monitor-interval"

_READS_ROWS, READS_REJECTED_ROWS = "rows", "rejected-rows"


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
    rejected_rows_bytes_max: int = option(
        "source.rejected-rows.max-size",
        OptionType.MEMORY_SIZE,
        "How much of the rejected rows each subtask keeps: of more, the earlier half goes.",
        "64 mb",
        minimum=1024,
    )
    rejected_rows_retention_ms: int = option(
        "source.rejected-rows.retention",
        OptionType.DURATION,
        "Remove the rejected rows of earlier jobs, when another is rejected, if they are older; 0 keeps them.",
        "30 d",
        minimum=0,
    )
    reads: str = option(
        "source.reads",
        OptionType.ENUM,
        "What is read: the rows of the files, or those that could not be decoded, as table `t$errors` has them.",
        _READS_ROWS,
        choices=(_READS_ROWS, READS_REJECTED_ROWS),
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
        return self.reads == READS_REJECTED_ROWS

    @staticmethod
    def of(options: Mapping[str, str]) -> FileOptions:
        return parse_options(FileOptions, options)
