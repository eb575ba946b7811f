"""PostgreSQL's catalog, types and SQL."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.connectors.jdbc.database import Database, TableName
from sqlstream.runtime.connectors.jdbc.driver import Connection, connect
from sqlstream.runtime.connectors.jdbc.postgres_types import AS_TEXTS, INTEGERS, is_as_text, numeric_size
from sqlstream.runtime.connectors.jdbc.stored_table import (
    Check,
    Columns,
    Selection,
    StoredColumn,
    StoredTable,
    no_table,
)
from sqlstream.runtime.connectors.sql_filters import date_expression, quote, text
from sqlstream.spi.files import Files
from sqlstream.types import LogicalType, TypeRoot

_DIGITS = {16: 5, 32: 10, 64: 19}
_WIDTHS = {TypeRoot.TINYINT: 16, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
"""A TINYINT is read of a smallint, since Postgres has no smaller one; what does not fit is refused when it is read."""

_PLAIN_TEXTS = ("text", "varchar")
_TEXTS = (*_PLAIN_TEXTS, "bpchar", "name")
_EQUAL = {
    TypeRoot.BOOLEAN: ("bool",),
    TypeRoot.FLOAT: ("float4",),
    TypeRoot.DOUBLE: ("float8", "float4"),
    TypeRoot.DATE: ("date",),
    TypeRoot.TIME: ("time",),
    TypeRoot.TIMESTAMP: ("timestamp",),
    TypeRoot.TIMESTAMP_LTZ: ("timestamptz",),
    TypeRoot.BINARY: ("bytea",),
    TypeRoot.VARBINARY: ("bytea",),
}
_STRINGS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_RELATIONS = ("r", "p", "v", "m", "f")

_TABLE = """
SELECT c.oid::int8 AS oid, n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = to_regclass({name})
"""
_COLUMNS = """
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, b.typname::text AS base, b.typtype::text AS kind,
  CASE WHEN b.typcategory = 'A' THEN e.typname::text END AS element,
  CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END AS modifier,
  coalesce(c.collisdeterministic, true) AS is_deterministic
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
  JOIN pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
  LEFT JOIN pg_type AS e ON e.oid = b.typelem LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_UNIQUE_KEYS = """
SELECT array_agg(a.attname::text) AS names
FROM pg_index AS i CROSS JOIN unnest(i.indkey::int2[]) AS k(attnum) JOIN pg_attribute AS a
  ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = {oid} AND i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indnkeyatts = i.indnatts
GROUP BY i.indexrelid
"""
_SIZE = """
SELECT CASE WHEN c.relkind IN ('r', 'm') THEN pg_table_size(c.oid)
  WHEN c.relkind = 'p' THEN (SELECT sum(pg_table_size(t.relid))::int8 FROM pg_partition_tree(c.oid) AS t) END AS bytes
FROM pg_class AS c WHERE c.oid = to_regclass({name})
"""
_SIZE_TIMEOUT_S = 2
_UNKNOWN_BYTES = 1 << 60
_TABLES = """
SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {schema} ORDER BY 1 LIMIT 1000
"""


class Postgres:
    """Reads columns of Postgres's own types, of domains over them, and of arrays of one dimension. No state."""

    def find_table(self, connection: Connection, name: TableName) -> StoredTable:
        found = connection.rows(_TABLE.format(name=text(_qualified(name)))).to_pylist()
        if not found or found[0]["kind"] not in _RELATIONS:
            schema = (
                f"n.nspname = {text(name.schema)}"
                if name.schema
                else "n.nspname = ANY(current_schemas(false))"
            )
            tables = connection.rows(_TABLES.format(schema=schema)).column(0).to_pylist()
            raise no_table(name, connection.database.url, tables)
        table = found[0]
        rows = connection.rows(_COLUMNS.format(oid=table["oid"])).to_pylist()
        keys = connection.rows(_UNIQUE_KEYS.format(oid=table["oid"])).column(0).to_pylist()
        return StoredTable(
            name=name,
            schema=table["schema"],
            item=f"{quote(table['schema'])}.{quote(table['name'])}",
            columns={row["name"]: _column(row) for row in rows},
            is_view=table["kind"] in ("v", "m"),
            unique_keys=tuple(frozenset(names) for names in keys),
        )

    def can_read(self, stored: StoredColumn, declared: LogicalType) -> bool:
        if declared.root is TypeRoot.ARRAY:
            assert declared.element is not None
            return bool(stored.element) and _fits(stored.element, "b", -1, declared.element)
        return not stored.element and _fits(stored.base, stored.kind, stored.modifier, declared)

    def selection(self, stored: StoredTable, columns: Columns, table: str) -> Selection:
        expressions, checks = [], []
        for place, (name, declared) in enumerate(columns):
            expressions.append(_expression(stored.columns[name], declared))
            if declared.root is TypeRoot.ARRAY:
                column = quote(name)
                checks.append(Check(place, f"array_ndims({column}) > 1", f"left({column}::text, 100)"))
        return Selection(table, tuple(columns), tuple(expressions), tuple(checks))

    def filtered(self, stored: StoredTable, columns: Columns) -> list[str | None]:
        return [_comparable(stored.columns[name]) for name, _ in columns]

    def day(self, days: int) -> str | None:
        return date_expression(days)

    def is_number(self, stored: StoredColumn) -> bool:
        return stored.base in (*INTEGERS, "numeric")

    def can_look_up(self, stored: StoredColumn, declared: LogicalType) -> bool:
        return True

    def matching(self, connection: Connection, stored: StoredTable, keys: pa.RecordBatch) -> str:
        keys = _storable(keys, stored)
        names = keys.schema.names
        arrays = [
            f"{_array_literal(column)}::{_key_type(stored.columns[name])}[]"
            for name, column in zip(names, keys.columns, strict=True)
        ]
        keyed = [_key(stored.columns[name]) for name in names]
        if len(names) == 1:
            return f"{stored.item} WHERE {keyed[0]} = ANY({arrays[0]})"
        aliases = [f'"$k{i}"' for i in range(len(names))]
        on = " AND ".join(f"{column} = {alias}" for column, alias in zip(keyed, aliases, strict=True))
        return f"unnest({', '.join(arrays)}) AS keys({', '.join(aliases)}) JOIN {stored.item} AS t ON {on} WHERE TRUE"


def stored_bytes(database: Database, name: TableName, files: Files) -> int:
    """What the table takes on the server's disk; a view, whose rows are not stored, counts as large. The errors of `connect`."""
    connection = connect(dataclasses.replace(database, connect_timeout_s=_SIZE_TIMEOUT_S), files)
    try:
        found = connection.rows(_SIZE.format(name=text(_qualified(name)))).column(0).to_pylist()
    finally:
        connection.close()
    return _UNKNOWN_BYTES if found == [None] else sum(found)


def _qualified(name: TableName) -> str:
    return f"{quote(name.schema)}.{quote(name.table)}" if name.schema else quote(name.table)


def _column(row: dict[str, object]) -> StoredColumn:
    return StoredColumn(
        name=str(row["name"]),
        type=str(row["type"]),
        base=str(row["base"]),
        modifier=int(str(row["modifier"])),
        kind=str(row["kind"]),
        element=str(row["element"] or ""),
        is_deterministic=bool(row["is_deterministic"]),
    )


def _fits(base: str, kind: str, modifier: int, declared: LogicalType) -> bool:
    if declared.root in _WIDTHS:
        return INTEGERS.get(base, 999) <= _WIDTHS[declared.root]
    if declared.root is TypeRoot.DECIMAL:
        if base in INTEGERS:
            return _DIGITS[INTEGERS[base]] <= declared.precision - declared.scale
        return base == "numeric" and _numeric_fits(modifier, declared)
    if declared.root in _STRINGS:
        return base in (*_TEXTS, *AS_TEXTS) or kind == "e"
    return base in _EQUAL.get(declared.root, ())


def _numeric_fits(modifier: int, declared: LogicalType) -> bool:
    """Whether it does by its precision and scale; without them its values are checked as they are read."""
    size = numeric_size(modifier)
    if size is None:
        return True
    precision, scale = size
    return scale <= declared.scale and precision - scale <= declared.precision - declared.scale


def _expression(stored: StoredColumn, declared: LogicalType) -> str:
    """The column as the driver can give it: types that it knows as bytes alone are read as text."""
    column = quote(stored.name)
    if declared.root is TypeRoot.ARRAY:
        assert declared.element is not None
        is_text = declared.element.root in (*_STRINGS, TypeRoot.DECIMAL) and stored.element not in _TEXTS
        return f"{column}::text[]" if is_text else column
    if declared.root in _STRINGS and stored.base not in _TEXTS:
        return f"{column}::text"
    return column


def _comparable(stored: StoredColumn) -> str | None:
    column = quote(stored.name)
    if is_as_text(stored):
        return f"({column}::text)"
    if stored.base not in _TEXTS:
        return column
    if stored.base not in _PLAIN_TEXTS:
        # Blanks at the end of a char(n) do not count in Postgres.
        return None
    return column if stored.is_deterministic else f'({column} COLLATE "C")'


def _key(stored: StoredColumn) -> str:
    """The column in an equality that may also find rows of other keys, such as those that a collation takes for equal."""
    return f"{quote(stored.name)}::text" if is_as_text(stored) else quote(stored.name)


def _key_type(stored: StoredColumn) -> str:
    if stored.base in _TEXTS or is_as_text(stored):
        return "bpchar" if stored.base == "bpchar" else "text"
    return stored.base


def _storable(keys: pa.RecordBatch, stored: StoredTable) -> pa.RecordBatch:
    """The keys that the columns can hold: no row has another one."""
    for place, name in enumerate(keys.schema.names):
        column = keys.column(place)
        bits = INTEGERS.get(stored.columns[name].base)
        if bits is not None and pa.types.is_integer(column.type) and column.type.bit_width > bits:
            high = 1 << (bits - 1)
            fits = pc.and_(pc.greater_equal(column, -high), pc.less(column, high))
        elif pa.types.is_string(column.type):
            fits = pc.invert(pc.match_substring(column, "\0"))
        else:
            continue
        keys = keys.filter(fits)
    return keys


def _array_literal(column: pa.Array) -> str:
    """The values as a text that Postgres reads as an array."""
    if pa.types.is_binary(column.type):
        # Hexadecimal digits, whose backslash the array's syntax takes as an escape.
        texts = pa.array([f"\\\\x{value.hex()}" for value in column.to_pylist()], pa.string())
        values = pc.binary_join_element_wise('"', texts, '"', "")
    elif pa.types.is_string(column.type):
        escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
        values = pc.binary_join_element_wise('"', escaped, '"', "")
    else:
        values = pc.binary_join_element_wise('"', pc.cast(column, pa.string()), '"', "")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), ",")
    return text("{" + joined[0].as_py() + "}")
