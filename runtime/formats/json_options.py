"""The options of format `json`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import option


@dataclass(frozen=True, kw_only=True)
class JsonTextOptions:
    """How values are written as JSON: what the formats of change events take too."""

    timestamp_standard: str = option(
        "timestamp-format.standard",
        OptionType.ENUM,
        "How timestamps are written: 2020-12-30 12:13:14.123 or 2020-12-30T12:13:14.123. Both are read.",
        "SQL",
        choices=("SQL", "ISO-8601"),
    )
    writes_plain_decimals: bool = option(
        "encode.decimal-as-plain-number",
        OptionType.BOOLEAN,
        "Whether decimals are written without an exponent.",
        "false",
    )
    leaves_out_nulls: bool = option(
        "encode.ignore-null-fields", OptionType.BOOLEAN, "Whether fields that are NULL are left out.", "false"
    )


@dataclass(frozen=True, kw_only=True)
class JsonOptions(JsonTextOptions):
    """The options of a table."""

    needs_fields: bool = option(
        "fail-on-missing-field",
        OptionType.BOOLEAN,
        "Whether a row without one of the fields is undecodable; by default the field is NULL.",
        "false",
    )
    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable rows are counted and written to a separate file instead of failing the job.",
        "false",
    )
