"""What events tell beside their rows: the metadata keys of each format, which are Flink's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.schema import Field
from sqlstream.types import BIGINT, INT, STRING, LogicalType, array, map_of, row, timestamp_ltz

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = map_of(STRING, STRING)


@dataclass(frozen=True)
class EventMetadata:
    """A metadata key: its type, and the member of the event that has it, of `member_type`; with `key` it is that of the member,
    which is a map or a ROW. A moment is a text, or as many units since 1970 as there are in a second."""

    type: LogicalType
    member: str
    member_type: LogicalType = STRING
    key: str | None = None
    units_per_second: int = 0
    is_text: bool = False
    is_varying: bool = False

    @property
    def is_moment(self) -> bool:
        return self.is_text or self.units_per_second > 0

    @property
    def varies(self) -> bool:
        """Whether events of one row have different values."""
        return self.is_varying or self.is_moment

    @property
    def field(self) -> Field:
        return Field(self.member, self.member_type)

    def of(self, members: pa.Array) -> pa.Array:
        """The values, from those of the member. pa.ArrowInvalid for one that is no moment."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from sqlstream.arrow import to_arrow_type

        values = members
        if self.key is not None and pa.types.is_struct(members.type):
            values = pc.struct_field(members, self.key)
        elif self.key is not None:
            values = pc.map_lookup(members, self.key, "last")
        target = to_arrow_type(self.type)
        if self.is_text:
            values = pc.replace_substring_regex(values, r"(\.\d{6})\d+", r"\1")
            return pc.cast(pc.cast(values, pa.timestamp("us")), pa.timestamp("us", "UTC")).cast(target)
        if self.units_per_second:
            milliseconds = pc.multiply_checked(pc.cast(values, pa.int64()), 1000 // self.units_per_second)
            return milliseconds.view(pa.timestamp("ms", "UTC")).cast(target)
        return values.cast(target)


def _of_source(key: str, type_: LogicalType = STRING, units_per_second: int = 0) -> EventMetadata:
    return EventMetadata(type_, "source", _TEXTS, key, units_per_second)


_LTZ = timestamp_ltz(3)

DEBEZIUM_METADATA = {
    "schema": EventMetadata(STRING, "schema", is_varying=True),
    "ingestion-timestamp": EventMetadata(_LTZ, "ts_ms", units_per_second=1000),
    "source.timestamp": _of_source("ts_ms", _LTZ, 1000),
    "source.database": _of_source("db"),
    "source.schema": _of_source("schema"),
    "source.table": _of_source("table"),
    "source.properties": EventMetadata(_TEXTS, "source", _TEXTS, is_varying=True),
}
_SOURCE = row(("ts_ms", BIGINT), ("db", STRING), ("schema", STRING), ("table", STRING))
DEBEZIUM_AVRO_METADATA = {
    "ingestion-timestamp": EventMetadata(_LTZ, "ts_ms", BIGINT, units_per_second=1000),
    "source.timestamp": EventMetadata(_LTZ, "source", _SOURCE, "ts_ms", 1000),
    "source.database": EventMetadata(STRING, "source", _SOURCE, "db"),
    "source.schema": EventMetadata(STRING, "source", _SOURCE, "schema"),
    "source.table": EventMetadata(STRING, "source", _SOURCE, "table"),
}
CANAL_METADATA = {
    "database": EventMetadata(STRING, "database"),
    "table": EventMetadata(STRING, "table"),
    "sql-type": EventMetadata(map_of(STRING, INT), "sqlType", map_of(STRING, INT)),
    "pk-names": EventMetadata(array(STRING), "pkNames", array(STRING)),
    "ingestion-timestamp": EventMetadata(_LTZ, "ts", units_per_second=1000),
}
# Maxwell's `ts` is in seconds.
MAXWELL_METADATA = {
    "database": EventMetadata(STRING, "database"),
    "table": EventMetadata(STRING, "table"),
    "primary-key-columns": EventMetadata(array(STRING), "primary_key_columns", array(STRING)),
    "ingestion-timestamp": EventMetadata(_LTZ, "ts", units_per_second=1),
}
OGG_METADATA = {
    "table": EventMetadata(STRING, "table"),
    "primary-key-columns": EventMetadata(array(STRING), "primary_keys", array(STRING)),
    "ingestion-timestamp": EventMetadata(timestamp_ltz(6), "current_ts", is_text=True),
    "event-timestamp": EventMetadata(timestamp_ltz(6), "op_ts", is_text=True),
}
