"""How Spark carries each logical type: in the tables that it reads, in its SQL, and in the rows that it gives."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

TIMESTAMP_PRECISION_MAX = 6
"""Digits behind the second that Spark's timestamps have."""

_PLAIN: dict[TypeRoot, str] = {
    TypeRoot.CHAR: "STRING",
    TypeRoot.VARCHAR: "STRING",
    TypeRoot.BOOLEAN: "BOOLEAN",
    TypeRoot.BINARY: "BINARY",
    TypeRoot.VARBINARY: "BINARY",
    TypeRoot.TINYINT: "TINYINT",
    TypeRoot.SMALLINT: "SMALLINT",
    TypeRoot.INTEGER: "INT",
    TypeRoot.BIGINT: "BIGINT",
    TypeRoot.FLOAT: "FLOAT",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.DATE: "DATE",
    TypeRoot.TIME: "INT",
    TypeRoot.INTERVAL_DAY_TIME: "BIGINT",
    TypeRoot.INTERVAL_YEAR_MONTH: "INT",
    TypeRoot.NULL: "INT",
    TypeRoot.SYMBOL: "STRING",
}
"""TIME is milliseconds of the day; the two intervals are milliseconds and months, as SQL orders and adds them."""


def spark_type(t: LogicalType) -> str:
    """The type as Spark SQL writes it. TIMESTAMP_LTZ is, like TIMESTAMP, a local time, of UTC: no zone of a session matters.

    UserError SS3301 for one that Spark cannot hold: timestamps finer than a microsecond, MULTISET, and a ROW with two fields of
    one name.

    >>> from sqlstream import types
    >>> spark_type(types.timestamp_ltz(3)), spark_type(types.array(types.INT))
    ('TIMESTAMP_NTZ', 'ARRAY<INT>')
    """
    plain = _PLAIN.get(t.root)
    if plain is not None:
        return plain
    match t.root:
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision},{t.scale})"
        case root if root in TIMESTAMP_ROOTS and t.precision <= TIMESTAMP_PRECISION_MAX:
            return "TIMESTAMP_NTZ"
        case TypeRoot.ARRAY if t.element is not None:
            return f"ARRAY<{spark_type(t.element)}>"
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            return f"MAP<{spark_type(t.key)},{spark_type(t.element)}>"
        case TypeRoot.ROW if len({f.name for f in t.fields}) == len(t.fields):
            return "STRUCT<" + ",".join(f"{quote(f.name)}:{spark_type(f.type)}" for f in t.fields) + ">"
    raise UserError(
        "SS3301",
        f"type {t.with_nullable(True)} has no exact counterpart in Spark",
        hint="SET 'execution.runtime-mode' = 'streaming', or 'execution.batch.engine' = 'duckdb'",
    )


def quote(name: str) -> str:
    """A name as a quoted identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
