"""The options of connector `jdbc`, with Flink's names, types and defaults."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.jdbc.database import Database, DatabaseKind, TableName, parse_url
from sqlstream.spi.connector import OptionType
from sqlstream.spi.lookup import EARLIER_LOOKUP_OPTIONS, LOOKUP_OPTIONS
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_DRIVERS = {
    "org.postgresql.driver": DatabaseKind.POSTGRES,
    "org.sqlite.jdbc": DatabaseKind.SQLITE,
}
"""The classes of JDBC's drivers, in small letters."""

_RANGES_MAX = 10_000
_PARTITION = (
    "scan.partition.column",
    "scan.partition.num",
    "scan.partition.lower-bound",
    "scan.partition.upper-bound",
)


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The options of a table, each by itself."""

    url: str = option(
        "url",
        OptionType.STRING,
        "The database: 'jdbc:postgresql://host:5432/database' or 'jdbc:sqlite:/path/of/file.sqlite'.",
        is_required=True,
    )
    table_name: str = option(
        "table-name",
        OptionType.STRING,
        "The table or view in the database, as table or schema.table.",
        is_required=True,
    )
    driver: str | None = option(
        "driver",
        OptionType.STRING,
        "The class of Flink's driver for the URL, org.postgresql.Driver or org.sqlite.JDBC; the URL says enough.",
    )
    username: str | None = option(
        "username", OptionType.STRING, "The user of the database; only with a password."
    )
    password: str | None = option("password", OptionType.STRING, "The password of that user; never shown.")
    connect_timeout_ms: int = option(
        "connection.max-retry-timeout",
        OptionType.DURATION,
        "How long to wait for a server that does not answer a connect, in whole seconds.",
        "60s",
        minimum=1000,
    )
    partition_column: str | None = option(
        _PARTITION[0],
        OptionType.STRING,
        "A column of numbers by whose ranges the subtasks share the rows; needs the other three.",
    )
    partition_count: int | None = option(
        _PARTITION[1], OptionType.INTEGER, "How many ranges there are.", minimum=1
    )
    partition_lower: int | None = option(
        _PARTITION[2], OptionType.LONG, "The smallest value of the first range; rows below it are not read."
    )
    partition_upper: int | None = option(
        _PARTITION[3], OptionType.LONG, "The largest value of the last range; rows above it are not read."
    )
    fetch_rows: int = option(
        "scan.fetch-size",
        OptionType.INTEGER,
        "The most rows of a batch that is read; 0 takes `execution.batch-rows`.",
        "0",
        minimum=0,
    )
    is_auto_commit: bool = option(
        "scan.auto-commit",
        OptionType.BOOLEAN,
        "Whether each range is read in a transaction of its own; otherwise a subtask reads all of its ranges in one.",
        "true",
    )
    filter_policy: str = option(
        "filter.handling.policy",
        OptionType.ENUM,
        "Whether the database checks the conditions that it decides as sqlstream does.",
        "always",
        choices=("always", "never"),
    )
    flush_rows_max: int = option(
        "sink.buffer-flush.max-rows",
        OptionType.INTEGER,
        "Rows that wait before they are sent to the database; 0 sets no such limit.",
        "100",
        minimum=0,
    )
    flush_interval_ms: int = option(
        "sink.buffer-flush.interval",
        OptionType.DURATION,
        "When further rows come, those are sent that have waited for this long; 0 sets no such limit.",
        "1s",
        minimum=0,
    )
    sink_retries_max: int = option(
        "sink.max-retries",
        OptionType.INTEGER,
        "How often rows that could not be written for a reason that may pass are written again.",
        "3",
        minimum=0,
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks write.", minimum=1
    )


OPTIONS = (*descriptors_of(_Given), *LOOKUP_OPTIONS, *EARLIER_LOOKUP_OPTIONS)


@dataclass(frozen=True)
class Partitions:
    """The ranges of a partitioned scan, from `lower` to `upper`, both included."""

    column: str
    count: int
    lower: int
    upper: int

    def ranges(self) -> list[tuple[int, int, bool]]:
        """(first value, end, whether the end is included): without gaps, of equal width but for the last values, and not more of
        them than there are whole numbers.

        >>> Partitions("k", 3, 1, 10).ranges()
        [(1, 5, False), (5, 8, False), (8, 10, True)]
        >>> Partitions("k", 5, 7, 8).ranges()
        [(7, 8, False), (8, 8, True)]
        """
        values = self.upper - self.lower + 1
        count = min(self.count, values)
        width, wide = divmod(values, count)
        starts = [self.lower + i * width + min(i, wide) for i in range(count)]
        return [(s, e, False) for s, e in itertools.pairwise(starts)] + [(starts[-1], self.upper, True)]


@dataclass(frozen=True)
class JdbcOptions:
    """The options of a table, read."""

    database: Database
    table: TableName
    partitions: Partitions | None
    fetch_rows: int
    is_auto_commit: bool
    is_filtering: bool
    flush_rows_max: int
    flush_interval_ms: int
    sink_retries_max: int


def read_options(options: Mapping[str, str]) -> JdbcOptions:
    """UserError SS4002, SS4003 and SS4005 for options that do not fit each other."""
    given = parse_options(_Given, options)
    url = parse_url(given.url)
    _check_driver(url.kind, given.driver)
    _check_login(url.kind, options)
    if given.connect_timeout_ms % 1000:
        raise UserError(
            "SS4002",
            'option "connection.max-retry-timeout" takes whole seconds',
            option="connection.max-retry-timeout",
            hint="write '60s'",
        )
    schema, _, table = given.table_name.rpartition(".")
    return JdbcOptions(
        database=Database(
            kind=url.kind,
            url=given.url,
            address=url.address,
            username=given.username or "",
            password=given.password or "",
            connect_timeout_s=given.connect_timeout_ms // 1000,
        ),
        table=TableName(schema or url.schema, table),
        partitions=_partitions(options, given),
        fetch_rows=given.fetch_rows,
        is_auto_commit=given.is_auto_commit,
        is_filtering=given.filter_policy == "always",
        flush_rows_max=given.flush_rows_max,
        flush_interval_ms=given.flush_interval_ms,
        sink_retries_max=given.sink_retries_max,
    )


def _check_driver(kind: DatabaseKind, driver: str | None) -> None:
    if driver is None or _DRIVERS.get(driver.lower()) is kind:
        return
    raise UserError(
        "SS4002",
        f'option "driver" names the class "{driver}", which is no driver of {kind.title} here',
        option="driver",
        hint="leave it out: no Java class is loaded",
    )


def _check_login(kind: DatabaseKind, options: Mapping[str, str]) -> None:
    given = [key for key in ("username", "password") if key in options]
    if kind is DatabaseKind.SQLITE and given:
        raise UserError(
            "SS4003",
            f'option "{given[0]}" has no use for SQLite, whose files have no users',
            option=given[0],
            hint="leave it out",
        )
    if len(given) == 1:
        missing = "password" if given == ["username"] else "username"
        raise UserError(
            "SS4005",
            f'option "{given[0]}" needs the option "{missing}"',
            option=given[0],
            hint=f"add '{missing}' = '…'",
        )


def _partitions(options: Mapping[str, str], given: _Given) -> Partitions | None:
    named = [key for key in _PARTITION if key in options]
    if not named:
        return None
    missing = next((key for key in _PARTITION if key not in options), None)
    if missing is not None:
        raise UserError(
            "SS4005",
            f'option "{named[0]}" needs the option "{missing}"',
            option=named[0],
            hint=f"add '{missing}' = '…'",
        )
    column, count = given.partition_column, given.partition_count
    lower, upper = given.partition_lower, given.partition_upper
    assert column is not None
    assert count is not None
    assert lower is not None
    assert upper is not None
    if count > _RANGES_MAX:
        raise UserError(
            "SS4002",
            f'option "{_PARTITION[1]}" must be at most {_RANGES_MAX}, not {count}',
            option=_PARTITION[1],
            hint="take a few for each subtask",
        )
    if lower > upper:
        raise UserError(
            "SS4002",
            f'option "{_PARTITION[2]}" is {lower}, which is above "{_PARTITION[3]}" of {upper}',
            option=_PARTITION[2],
            hint="exchange the two",
        )
    return Partitions(column, count, lower, upper)
