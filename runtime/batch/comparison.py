"""Two results as multisets in DuckDB: how many rows differ, and the first of them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema, without_row_kinds
from sqlstream.errors import ExternalError
from sqlstream.runtime.batch.duckdb import database_config
from sqlstream.runtime.host.spill_directory import spill_directory
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot

if TYPE_CHECKING:
    import duckdb

ROWS_AT_ONCE = 131_072
BYTES_AT_ONCE = 16 * 1024 * 1024
SHOWN_BYTES_MAX = 4 * 1024 * 1024
"""Differing rows that are given, and at least one."""
SIDES = ("stream", "batch")
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_MAPS = (TypeRoot.MAP, TypeRoot.MULTISET)


@dataclasses.dataclass(frozen=True)
class Differences:
    """`surplus` and `missing` count the rows that only the stream and only the batch have. `near` counts the pairs of rows that
    were taken as equal, since only floats differ, within the tolerance.

    `rows` holds the first of the differing rows. Of each, `keys` has the number of its key, from 1, and `counts` how many times
    more the stream has it (above 0) or the batch (below 0)."""

    surplus: int
    missing: int
    near: int
    rows: pa.Table
    keys: tuple[int, ...]
    counts: tuple[int, ...]


class Comparison:
    """Takes the changelog of a stream and the rows of a batch, and says where they differ.

    Rows are compared by all columns in the types of `schema`: NULL equals NULL, and NaN equals NaN. State: both results in a
    database of its own, which writes to temporary files what its memory does not hold. All is gone with `close`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: Schema) -> None:
        """`connection` is to an empty database that the comparison may fill."""
        self._connection = connection
        self._schema = schema
        self._arrow = to_arrow_schema(schema)
        self._columns = [f"c{i}" for i in range(len(schema))]
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._waiting_rows = 0
        self._side = ""
        fields = [
            pa.field(name, _stored_type(f.type)) for name, f in zip(self._columns, self._arrow, strict=True)
        ]
        self._stored = pa.schema([*fields, pa.field("n", pa.int64())])
        for side in SIDES:
            connection.register("empty", self._stored.empty_table())
            connection.execute(f"CREATE TABLE {side}_rows AS SELECT * FROM empty")
            connection.unregister("empty")

    def add(self, side: str, batch: pa.RecordBatch) -> None:
        """Rows of `stream` or `batch`; a row of a changelog that retracts takes one such row away."""
        if side != self._side:
            self.flush()
            self._side = side
        sign = signs_of(row_kinds(batch))
        data = without_row_kinds(batch).columns
        columns = [*(c.cast(_stored_type(c.type)) for c in data), pa.array(sign, pa.int64())]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._stored))
        self._waiting_bytes += batch.nbytes
        self._waiting_rows += batch.num_rows
        if self._waiting_bytes >= BYTES_AT_ONCE or self._waiting_rows >= ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Move what waits into the database."""
        if self._waiting:
            self._connection.register("added", pa.Table.from_batches(self._waiting))
            self._execute(f"INSERT INTO {self._side}_rows SELECT * FROM added")
            self._connection.unregister("added")
        self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0

    def count(self, side: str) -> int:
        """The rows of the finished result."""
        self.flush()
        return int(self._execute(f"SELECT COALESCE(SUM(n), 0) FROM {side}_rows").fetchall()[0][0])

    def differences(self, key: tuple[int, ...] | None, tolerance: float, keys_max: int) -> Differences:
        """Compare. `key` names columns that tell rows apart; without one each differing row stands alone. Floats may differ by
        `tolerance`, relative to the larger one. The first `keys_max` keys in order are given with their rows."""
        self.flush()
        shown = ", ".join(self._columns)
        sides = " UNION ALL ".join(
            f"SELECT {', '.join(self._compared())}, {'n' if side == 'stream' else '-n'} AS n FROM {side}_rows"
            for side in SIDES
        )
        # All counts of a row are added: what a stream has inserted and retracted, less what the batch has.
        having = f"SELECT {shown}, SUM(n) AS n FROM ({sides}) GROUP BY {shown or 'ALL'} HAVING SUM(n) <> 0"
        self._execute(f"CREATE OR REPLACE TEMP TABLE differing AS {having}")
        near = self.drop_near(tolerance) if tolerance > 0 else 0
        totals = (
            "SELECT COALESCE(SUM(n) FILTER (n > 0), 0), COALESCE(-SUM(n) FILTER (n < 0), 0) FROM differing"
        )
        surplus, missing = (int(n) for n in self._execute(totals).fetchall()[0])
        rows, keys, counts = self._first(key, keys_max)
        return Differences(surplus, missing, near, rows, keys, counts)

    def _compared(self) -> list[str]:
        """The columns as they are compared: the entries of a map have no order."""
        return [
            f"map_from_entries(list_sort(map_entries({name}))) AS {name}" if t.root in _MAPS else name
            for name, t in zip(self._columns, self._schema.types, strict=True)
        ]

    def drop_near(self, tolerance: float) -> int:
        """Remove from the rows that `differences` has found the pairs, one row of each side, that differ in floats alone and by
        no more than `tolerance`; returns how many.

        Among rows with the same other columns, the values of a float column fall into groups that are further apart than
        `tolerance`. Within the same groups, the nth row of one side is paired with the nth of the other."""
        columns = list(zip(self._columns, self._schema.types, strict=True))
        floats = [name for name, t in columns if t.root in _FLOATS]
        if not floats:
            return 0
        others = [name for name, t in columns if t.root not in _FLOATS]
        shown, same_others = ", ".join(self._columns), ", ".join(others or ["1"])
        single = f"SELECT {shown}, SIGN(n) AS n, UNNEST(RANGE(CAST(ABS(n) AS BIGINT))) AS copy FROM differing"
        for i, name in enumerate(floats):
            window = f"OVER (PARTITION BY {same_others} ORDER BY {name} ROWS UNBOUNDED PRECEDING)"
            is_new = (
                f"CASE WHEN {_is_close(name, f'LAG({name}) {window}', tolerance)} THEN 0 ELSE 1 END AS new{i}"
            )
            single = f"SELECT *, SUM(new{i}) {window} AS group{i} FROM (SELECT *, {is_new} FROM ({single}))"
        groups = [f"group{i}" for i in range(len(floats))]
        partition = ", ".join([*others, *groups, "n"])
        self._execute(
            "CREATE OR REPLACE TEMP TABLE single AS SELECT *, "
            f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {', '.join(floats)}) AS place FROM ({single})"
        )
        same = [f"s.{name} IS NOT DISTINCT FROM b.{name}" for name in [*others, *groups, "place"]]
        close = [_is_close(f"s.{name}", f"b.{name}", tolerance) for name in floats]
        self._execute(
            "CREATE OR REPLACE TEMP TABLE paired AS SELECT s.rowid AS a, b.rowid AS b FROM single AS s JOIN single AS b ON "
            f"s.n > 0 AND b.n < 0 AND {' AND '.join([*same, *close])}"
        )
        near = int(self._execute("SELECT COUNT(*) FROM paired").fetchall()[0][0])
        self._execute(
            f"CREATE OR REPLACE TEMP TABLE differing AS SELECT {shown}, SUM(n) AS n FROM single "
            f"WHERE rowid NOT IN (SELECT a FROM paired UNION ALL SELECT b FROM paired) GROUP BY {shown}"
        )
        return near

    def _first(
        self, key: tuple[int, ...] | None, keys_max: int
    ) -> tuple[pa.Table, tuple[int, ...], tuple[int, ...]]:
        """The differing rows of the first keys, the number of the key of each, and their counts."""
        by = ", ".join(self._columns if key is None else [self._columns[i] for i in key])
        found = "SELECT *, 1 AS key FROM differing"
        if by:
            # Only the first keys are sorted, and not all differing rows.
            self._execute(
                f"CREATE OR REPLACE TEMP TABLE first_keys AS SELECT *, ROW_NUMBER() OVER (ORDER BY {by}) AS key FROM "
                f"(SELECT DISTINCT {by} FROM differing ORDER BY {by} LIMIT {keys_max})"
            )
            same = [f"d.{name} IS NOT DISTINCT FROM k.{name}" for name in by.split(", ")]
            found = f"SELECT d.*, k.key FROM differing AS d JOIN first_keys AS k ON {' AND '.join(same)}"
        # A key has few rows, but one that is none may have any number: each side is cut.
        order = ", ".join(["key", *self._columns, "n"])
        cut = f"ROW_NUMBER() OVER (PARTITION BY key, n > 0 ORDER BY {order}) <= {keys_max}"
        self._execute(
            f"CREATE OR REPLACE TEMP TABLE first_rows AS SELECT * FROM ({found}) QUALIFY {cut} ORDER BY {order}"
        )
        first = _cut(self._connection.sql("SELECT * FROM first_rows").to_arrow_table(), SHOWN_BYTES_MAX)
        arrays = [first[name].cast(f.type) for name, f in zip(self._columns, self._arrow, strict=True)]
        keys, counts = (tuple(int(value) for value in first[name].to_pylist()) for name in ("key", "n"))
        return pa.Table.from_arrays(arrays, schema=self._arrow), keys, counts

    def interrupt(self) -> None:
        """End the work that is under way with an error, from any thread; harmless once the database is closed."""
        import duckdb

        with contextlib.suppress(duckdb.Error):
            self._connection.interrupt()

    def _execute(self, text: str) -> Any:
        import duckdb

        try:
            return self._connection.execute(text)
        except duckdb.OutOfMemoryException as error:
            raise ExternalError(
                "SS5070",
                f"DuckDB has no memory left to compare the rows: {str(error).splitlines()[0]}",
                hint="SET 'execution.batch.duckdb-memory-max' to a larger size",
            ) from error


def _cut(rows: pa.Table, bytes_max: int) -> pa.Table:
    """The first rows that fit, and at least one."""
    count = rows.num_rows
    while count > 1 and rows.slice(0, count).nbytes > bytes_max:
        count //= 2
    return rows.slice(0, count)


def _stored_type(t: pa.DataType) -> pa.DataType:
    """Times with a unit are stored as their numbers, since DuckDB's own types do not hold all of them."""
    return pa.int64() if pa.types.is_timestamp(t) or pa.types.is_duration(t) else t


def _is_close(a: str, b: str, tolerance: float) -> str:
    is_near = f"ABS({a} - {b}) <= {tolerance!r} * GREATEST(ABS({a}), ABS({b}))"
    return f"({a} IS NOT DISTINCT FROM {b} OR (ISFINITE({a}) AND ISFINITE({b}) AND {is_near}))"


@contextlib.contextmanager
def comparison(schema: Schema, config: Mapping[str, str]) -> Iterator[Comparison]:
    """A comparison in a database of its own."""
    import duckdb

    with spill_directory() as directory:
        connection = duckdb.connect(":memory:", config=database_config(config, directory))
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield Comparison(connection, schema)
        finally:
            connection.close()
