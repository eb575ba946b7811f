"""A table as its database describes it, and what is read of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.connectors.declared_rows import as_declared, first_misfit, value_error
from sqlstream.runtime.connectors.jdbc.database import TableName
from sqlstream.types import LogicalType, TypeRoot

Columns = Sequence[tuple[str, LogicalType]]
"""Names of columns with the types that a table declares."""

_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days from 1970-01-01."""

_DAY_US = 86_400_000_000
_UNITS_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": _DAY_US, "ns": 1000 * _DAY_US}


@dataclass(frozen=True)
class StoredColumn:
    """`type` is what the database calls the column's type; `base` is what it is made of: without length and precision, of a
    domain the type below, of SQLite the affinity. `modifier` is Postgres's, -1 for none. `kind`: `e` for an ENUM. `element`: the
    base type of an array's elements."""

    name: str
    type: str
    base: str
    modifier: int = -1
    kind: str = "b"
    element: str = ""
    is_deterministic: bool = True


FitsColumn = Callable[[StoredColumn, LogicalType], bool]


@dataclass(frozen=True)
class StoredTable:
    """`item` stands in FROM; `schema` is the one that the table was found in. `unique_keys` are the sets of columns that a
    conflict of an upsert can name."""

    name: TableName
    schema: str
    item: str
    columns: dict[str, StoredColumn]
    is_view: bool
    unique_keys: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True)
class Check:
    """`is_wrong` is a condition in SQL on the value of the column at `place`; `shown` is the value as a text in SQL."""

    place: int
    is_wrong: str
    shown: str


@dataclass(frozen=True)
class Selection:
    """The wanted columns as expressions of the database, with what the database must check of their values. `typed_row`: values
    of a row before all others, from which the driver takes the types of the columns."""

    table: str
    columns: tuple[tuple[str, LogicalType], ...]
    expressions: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    typed_row: tuple[str, ...] = ()

    @property
    def rows_ahead(self) -> int:
        """How many rows before the first one of the table the query gives."""
        return 1 if self.typed_row else 0

    def query(self, source: str) -> str:
        """SELECT of the columns; `source` is what stands behind FROM, with its conditions."""
        columns = list(self.expressions) or ["1"]
        typed = list(self.typed_row)
        if self.checks:
            branches = " ".join(
                f"WHEN {check.is_wrong} THEN '{check.place}:' || {check.shown}" for check in self.checks
            )
            columns.append(f"CASE {branches} ELSE '' END")
            typed.append("''")
        named = ", ".join(f'{sql} AS "${i}"' for i, sql in enumerate(columns))
        query = f"SELECT {named} FROM {source}"
        if not self.typed_row:
            return query
        return f"SELECT {', '.join(typed)} UNION ALL SELECT * FROM ({query})"

    def declared(self, rows: pa.Table) -> pa.RecordBatch:
        """The rows, without those ahead, with the types of the declared columns. UserError SS5065 for a value that does not
        fit."""
        if self.checks:
            self._check(rows.column(rows.num_columns - 1))
            rows = rows.select(range(rows.num_columns - 1))
        if not self.columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
        for place, (name, declared) in enumerate(self.columns):
            column = _times_of_texts(rows.column(place), name, self.table, declared)
            check_range(column, name, self.table, declared)
            rows = rows.set_column(place, name, column)
        return as_declared(self.columns, rows, self.table)

    def _check(self, guard: pa.ChunkedArray) -> None:
        wrong = pc.filter(guard, pc.not_equal(guard, ""))
        if len(wrong):
            place, _, shown = wrong[0].as_py().partition(":")
            name, declared = self.columns[int(place)]
            raise value_error(name, self.table, declared, shown)


def check_columns(
    stored: StoredTable, table: str, columns: Iterable[tuple[str, LogicalType]], fits: FitsColumn
) -> None:
    """UserError SS5062 for a column that the stored table lacks, or whose type does not fit the declared one."""
    for name, declared in columns:
        if name not in stored.columns:
            raise UserError(
                "SS5062",
                f'table {stored.name} has no column "{name}", which table "{table}" declares',
                hint=did_you_mean(name, list(stored.columns))
                or f"its columns are {', '.join(list(stored.columns)[:50])}",
            )
        if not fits(stored.columns[name], declared):
            raise UserError(
                "SS5062",
                f'column "{name}" of table {stored.name} has type {stored.columns[name].type}, which does not fit'
                f" {declared.with_nullable(True)}",
                hint=f'declare column "{name}" of table "{table}" with a type that fits',
            )


def no_table(name: TableName, url: str, tables: list[str]) -> UserError:
    """`tables` are those that are there."""
    listed = f"its tables are {', '.join(tables[:20])}" if tables else "there are no tables"
    return UserError(
        "SS5062",
        f'there is no table {name} in "{url}"',
        hint=did_you_mean(name.table, tables) or listed,
    )


def _times_of_texts(column: pa.ChunkedArray, name: str, table: str, declared: LogicalType) -> pa.ChunkedArray:
    """Texts of times of day as Arrow's times, which it casts texts of timestamps to and not those of times."""
    if declared.root is not TypeRoot.TIME or not pa.types.is_string(column.type):
        return column
    moment = pa.timestamp("us")
    dated = pc.binary_join_element_wise("1970-01-01 ", column, "")
    try:
        return pc.cast(dated, moment).cast(pa.time64("us"))
    except pa.ArrowInvalid:
        wrong = first_misfit(dated.combine_chunks(), moment, declared)
        raise value_error(name, table, declared, wrong.as_py().partition(" ")[2]) from None


def check_range(column: pa.ChunkedArray, name: str, table: str, declared: LogicalType) -> None:
    """UserError SS5065 for infinite dates and timestamps, and those of other years than 1 to 9999: the driver lets them
    overflow. Postgres's time 24:00 is none of ours."""
    array, t = column, column.type
    if pa.types.is_list(t):
        array, t = pc.list_flatten(column), t.value_type
    if pa.types.is_time(t):
        least, most = 0, _UNITS_PER_DAY[t.unit] - 1
        shown = "24:00:00"
    elif pa.types.is_date32(t):
        (least, most), shown = _DAYS, "infinite, or of a year that is not from 1 to 9999"
    elif pa.types.is_timestamp(t):
        per_day = _UNITS_PER_DAY[t.unit]
        least, most = _DAYS[0] * per_day, (_DAYS[1] + 1) * per_day - 1
        shown = "infinite, or of a year that is not from 1 to 9999"
    else:
        return
    bits = pa.int32() if t.bit_width == 32 else pa.int64()
    found = pc.min_max(pc.cast(array, bits)).as_py()
    if found["min"] is not None and (found["min"] < least or found["max"] > most):
        raise value_error(name, table, declared, shown)
