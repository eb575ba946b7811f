"""The time that the values of a partition stand for."""

from __future__ import annotations

import re

import pyarrow as pa

from sqlstream.runtime.connectors.file_sink_options import FileSinkOptions
from sqlstream.runtime.evaluate.local_time import from_local
from sqlstream.runtime.evaluate.timestamp_parser import TimestampParser
from sqlstream.time_zones import check_time_zone

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
