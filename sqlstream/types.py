"""SQL's logical types, with Flink's names, bounds and printing (Flink: org.apache.flink.table.types.logical)."""

from __future__ import annotations

import enum

import msgspec

VARCHAR_LENGTH_MAX = 2_147_483_647
DECIMAL_PRECISION_MAX = 38


class TypeRoot(enum.Enum):
    """Flink's LogicalTypeRoot, as messages carry it."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME_WITHOUT_TIME_ZONE"
    TIMESTAMP = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_LTZ = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    INTERVAL_YEAR_MONTH = "INTERVAL_YEAR_MONTH"
    INTERVAL_DAY_TIME = "INTERVAL_DAY_TIME"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    VARIANT = "VARIANT"
    BITMAP = "BITMAP"
    NULL = "NULL"
    SYMBOL = "SYMBOL"


class TimeAttribute(enum.Enum):
    """Whether a timestamp column drives time: ROWTIME has a watermark, PROCTIME reads the clock."""

    NONE = ""
    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


class RowField(msgspec.Struct, frozen=True):
    name: str
    type: LogicalType


class LogicalType(msgspec.Struct, frozen=True, omit_defaults=True):
    """One SQL type. Which of the fields mean something depends on `root`; build values with the functions below.

    `length`: CHAR, VARCHAR, BINARY, VARBINARY. `precision`, `scale`: DECIMAL; `precision` alone: TIME, TIMESTAMP*.
    `element`: ARRAY, MULTISET, and the value of a MAP. `key`: MAP. `fields`: ROW.
    """

    root: TypeRoot
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    element: LogicalType | None = None
    key: LogicalType | None = None
    fields: tuple[RowField, ...] = ()
    time_attribute: TimeAttribute = TimeAttribute.NONE

    def not_null(self) -> LogicalType:
        return self.with_nullable(False)

    def with_nullable(self, nullable: bool) -> LogicalType:
        return self if self.nullable == nullable else msgspec.structs.replace(self, nullable=nullable)

    def without_time_attribute(self) -> LogicalType:
        """The plain timestamp type: what a function of a time attribute, or a sink, sees."""
        if self.time_attribute is TimeAttribute.NONE:
            return self
        return msgspec.structs.replace(self, time_attribute=TimeAttribute.NONE)

    @property
    def parts(self) -> tuple[LogicalType, ...]:
        """The types of what its values consist of."""
        return tuple(t for t in (self.key, self.element, *(f.type for f in self.fields)) if t is not None)

    def same_as(self, other: LogicalType) -> bool:
        """Equal but for nullability and time attribute, at every depth."""
        return _erase(self) == _erase(other)

    def __str__(self) -> str:
        text = _print_root(self)
        if self.time_attribute is not TimeAttribute.NONE:
            text += f" *{self.time_attribute.value}*"
        return text if self.nullable else f"{text} NOT NULL"


def _erase(t: LogicalType) -> LogicalType:
    return LogicalType(
        root=t.root,
        length=t.length,
        precision=t.precision,
        scale=t.scale,
        element=_erase(t.element) if t.element else None,
        key=_erase(t.key) if t.key else None,
        fields=tuple(RowField(f.name, _erase(f.type)) for f in t.fields),
    )


def _print_root(t: LogicalType) -> str:
    match t.root:
        case TypeRoot.VARCHAR:
            return "STRING" if t.length == VARCHAR_LENGTH_MAX else f"VARCHAR({t.length})"
        case TypeRoot.VARBINARY:
            return "BYTES" if t.length == VARCHAR_LENGTH_MAX else f"VARBINARY({t.length})"
        case TypeRoot.CHAR | TypeRoot.BINARY:
            return f"{t.root.value}({t.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case TypeRoot.INTEGER:
            return "INT"
        case TypeRoot.TIME:
            return f"TIME({t.precision})"
        case TypeRoot.TIMESTAMP:
            return f"TIMESTAMP({t.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP_LTZ({t.precision})"
        case TypeRoot.INTERVAL_YEAR_MONTH:
            return "INTERVAL YEAR TO MONTH"
        case TypeRoot.INTERVAL_DAY_TIME:
            return "INTERVAL DAY TO SECOND(3)"
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return f"{t.root.value}<{t.element}>"
        case TypeRoot.MAP:
            return f"MAP<{t.key}, {t.element}>"
        case TypeRoot.ROW:
            return "ROW<" + ", ".join(f"`{f.name}` {f.type}" for f in t.fields) + ">"
        case _:
            return t.root.value


BOOLEAN = LogicalType(TypeRoot.BOOLEAN)
TINYINT = LogicalType(TypeRoot.TINYINT)
SMALLINT = LogicalType(TypeRoot.SMALLINT)
INT = LogicalType(TypeRoot.INTEGER)
BIGINT = LogicalType(TypeRoot.BIGINT)
FLOAT = LogicalType(TypeRoot.FLOAT)
DOUBLE = LogicalType(TypeRoot.DOUBLE)
DATE = LogicalType(TypeRoot.DATE)
STRING = LogicalType(TypeRoot.VARCHAR, length=VARCHAR_LENGTH_MAX)
BYTES = LogicalType(TypeRoot.VARBINARY, length=VARCHAR_LENGTH_MAX)
NULL = LogicalType(TypeRoot.NULL)
VARIANT = LogicalType(TypeRoot.VARIANT)
"""A value of JSON; Arrow has its text, with the names of objects in order."""
BITMAP = LogicalType(TypeRoot.BITMAP)
"""A set of 32-bit numbers; Arrow has the bytes of a 32-bit Roaring bitmap in its portable form."""
SYMBOL = LogicalType(TypeRoot.SYMBOL, nullable=False)
INTERVAL_DAY_TIME = LogicalType(TypeRoot.INTERVAL_DAY_TIME, precision=3)
INTERVAL_YEAR_MONTH = LogicalType(TypeRoot.INTERVAL_YEAR_MONTH)


def char(length: int = 1) -> LogicalType:
    return LogicalType(TypeRoot.CHAR, length=length)


def varchar(length: int = VARCHAR_LENGTH_MAX) -> LogicalType:
    return LogicalType(TypeRoot.VARCHAR, length=length)


def binary(length: int = 1) -> LogicalType:
    return LogicalType(TypeRoot.BINARY, length=length)


def varbinary(length: int = VARCHAR_LENGTH_MAX) -> LogicalType:
    return LogicalType(TypeRoot.VARBINARY, length=length)


def decimal(precision: int = 10, scale: int = 0) -> LogicalType:
    """DECIMAL with 1 <= precision <= 38 and 0 <= scale <= precision; the binder checks the bounds."""
    return LogicalType(TypeRoot.DECIMAL, precision=precision, scale=scale)


def time(precision: int = 0) -> LogicalType:
    return LogicalType(TypeRoot.TIME, precision=precision)


def timestamp(precision: int = 6) -> LogicalType:
    return LogicalType(TypeRoot.TIMESTAMP, precision=precision)


def timestamp_ltz(precision: int = 6) -> LogicalType:
    return LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=precision)


def array(element: LogicalType) -> LogicalType:
    return LogicalType(TypeRoot.ARRAY, element=element)


def multiset(element: LogicalType) -> LogicalType:
    return LogicalType(TypeRoot.MULTISET, element=element)


def map_of(key: LogicalType, value: LogicalType) -> LogicalType:
    return LogicalType(TypeRoot.MAP, key=key, element=value)


def row(*fields: tuple[str, LogicalType]) -> LogicalType:
    return LogicalType(TypeRoot.ROW, fields=tuple(RowField(n, t) for n, t in fields))


PROCTIME = msgspec.structs.replace(timestamp_ltz(3), nullable=False, time_attribute=TimeAttribute.PROCTIME)


ROWTIME_PRECISION_MAX = 3
"""Digits of the second of event time, as in Flink: watermarks are milliseconds."""


def as_rowtime(t: LogicalType) -> LogicalType:
    """`t`, a TIMESTAMP or TIMESTAMP_LTZ, marked as carrying a watermark."""
    return msgspec.structs.replace(t, time_attribute=TimeAttribute.ROWTIME)


INTEGER_ROOTS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
APPROXIMATE_ROOTS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
STRING_ROOTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
BINARY_ROOTS = (TypeRoot.BINARY, TypeRoot.VARBINARY)
TIMESTAMP_ROOTS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
NESTED_ROOTS = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW)
CONSTRUCTED_ROOTS = (*NESTED_ROOTS, TypeRoot.MULTISET)


def is_integer(t: LogicalType) -> bool:
    return t.root in INTEGER_ROOTS


def is_numeric(t: LogicalType) -> bool:
    return t.root in INTEGER_ROOTS or t.root in APPROXIMATE_ROOTS or t.root is TypeRoot.DECIMAL


def is_string(t: LogicalType) -> bool:
    return t.root in STRING_ROOTS


def are_stored_alike(a: LogicalType, b: LogicalType) -> bool:
    """Whether equal values of both have the same bytes, so that rows meet by them: of one type, or texts of any length."""
    return (is_string(a) and is_string(b)) or a.with_nullable(True).same_as(b.with_nullable(True))


def is_timestamp(t: LogicalType) -> bool:
    return t.root in TIMESTAMP_ROOTS


def is_interval(t: LogicalType) -> bool:
    return t.root in (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH)


def is_rowtime(t: LogicalType) -> bool:
    return t.time_attribute is TimeAttribute.ROWTIME


def is_proctime(t: LogicalType) -> bool:
    return t.time_attribute is TimeAttribute.PROCTIME
