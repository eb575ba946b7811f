"""The options of the formats of change events; those that they share with format `json` mean the same there."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.runtime.formats.json_options import JsonOptions, JsonTextOptions
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import descriptors_of, option


@dataclass(frozen=True, kw_only=True)
class ChangeEventOptions(JsonTextOptions):
    """What every one of the formats takes."""

    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable events are counted and written to a separate file instead of failing the job.",
        "false",
    )


@dataclass(frozen=True, kw_only=True)
class DebeziumOptions(ChangeEventOptions):
    """The options of `debezium-json`."""

    placeholder: str = option(
        "unavailable-value-placeholder",
        OptionType.STRING,
        "What stands for a value that the log does not have, as `unavailable.value.placeholder` of the connector.",
        "__debezium_unavailable_value",
    )
    decimals: str = option(
        "decimal-handling-mode",
        OptionType.ENUM,
        "What a DECIMAL in quotes is, as `decimal.handling.mode` of the connector: bytes in base64 (`precise`) or digits"
        " (`string`, `double`). With `auto` the schema of the event says it, or the values do.",
        "auto",
        choices=("auto", "precise", "string", "double"),
    )
    time_unit: str = option(
        "time-unit",
        OptionType.ENUM,
        "The unit of a number for a TIMESTAMP or TIME whose event has no schema. With `auto` that of the column's precision,"
        " as with `time.precision.mode` = `adaptive` of the connector: milliseconds up to 3, microseconds up to 6, nanoseconds"
        " up to 9.",
        "auto",
        choices=("auto", "milliseconds", "microseconds", "nanoseconds"),
    )
    has_schema: bool = option(
        "schema-include",
        OptionType.BOOLEAN,
        "Whether each event is the payload beside its schema, as Kafka Connect's JSON converter writes it.",
        "false",
    )


@dataclass(frozen=True, kw_only=True)
class CanalOptions(ChangeEventOptions):
    """The options of `canal-json`."""

    databases: str | None = option(
        "database.include", OptionType.STRING, "A regular expression: only events of such databases are read."
    )
    tables: str | None = option(
        "table.include", OptionType.STRING, "A regular expression: only events of such tables are read."
    )


def json_options(options: dict[str, str]) -> dict[str, str]:
    """Those of the options that the rows within an event are read and written by."""
    shared = {d.key for d in descriptors_of(JsonOptions)}
    return {key: value for key, value in options.items() if key in shared}
