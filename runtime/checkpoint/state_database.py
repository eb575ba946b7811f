"""Saved state in DuckDB: queries over the tables of a checkpoint, and what differs between two."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.batch.duckdb import BATCH_ROWS, database_config
from sqlstream.runtime.checkpoint.saved_tables import SavedTable, SavedTables
from sqlstream.runtime.host.spill_directory import spill_directory
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN

if TYPE_CHECKING:
    import duckdb

_BEFORE, _AFTER = "before", "after"
_KEY_COLUMNS_MAX = 8
_OP, _TIMES = '"$op"', '"$times"'
_OF_STORAGE = frozenset({KEY_GROUP_COLUMN, "$slot", "$owner", "$version", "$touched_ms"})
"""Columns that say how rows are kept, and not what they are."""


@dataclass(frozen=True)
class TableDifference:
    """How the rows of one table differ. `key` are the columns by which rows were matched: None when rows have no key, so that
    none is changed. The first column of `changes` is the kind of a change: +I, -D, and for a changed row -U and +U."""

    table: str
    before: int
    after: int
    added: int
    removed: int
    changed: int
    key: tuple[str, ...] | None
    changes: pa.Table

    @property
    def is_equal(self) -> bool:
        return self.added == self.removed == self.changed == 0


class StateDatabase:
    """A database in memory for one command: it reads what is registered, and no other file, no extension, no network."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def register(self, saved: SavedTables, tables: Iterable[SavedTable]) -> None:
        """Make tables known under their qualified names, and under their own where these are not ambiguous."""
        own: dict[str, list[SavedTable]] = {}
        for table in tables:
            own.setdefault(table.name, []).append(table)
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.schema_name)}")
            self._register(table.schema_name, table.name, saved.rows(table))
        for name, same in own.items():
            if len(same) == 1:
                place = f"{quoted(same[0].schema_name)}.{quoted(name)}"
                self._connection.execute(f"CREATE VIEW {quoted(name)} AS FROM {place}")

    def _register(self, schema_name: str, name: str, rows: pa.Table) -> None:
        # A view of the relation itself: `register` would show one more, under a name of its own.
        self._connection.execute(f"USE memory.{quoted(schema_name)}")
        relation = self._connection.from_arrow(rows.rename_columns(_unique(rows.schema.names)))
        relation.create_view(name, replace=True)
        self._connection.execute("USE memory.main")

    def lock(self) -> None:
        """From here on statements reach nothing else."""
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def query(self, sql: str) -> pa.RecordBatchReader:
        """The rows of a query. UserError SS6213 for more than one, and with DuckDB's words for one that it refuses."""
        import duckdb

        try:
            count = len(self._connection.extract_statements(sql))
            if count > 1:
                hint = "run them one by one, or as parts of one: WITH a AS (SELECT …) SELECT …"
                raise UserError(
                    "SS6213", f"there are {count} statements, of which only one can be run", hint=hint
                )
            relation = self._connection.sql(sql)
            if relation is None:
                raise UserError("SS6213", "the statement has no rows", hint="write a query: SELECT …")
            return relation.to_arrow_reader(BATCH_ROWS)
        except duckdb.Error as error:
            raise UserError(
                "SS6213",
                "DuckDB cannot run the query",
                detail=str(error),
                hint="`sqlstream state ls --json CHECKPOINT` has the names of tables and columns",
            ) from error

    def difference(self, name: str, before: pa.Table, after: pa.Table, rows_max: int) -> TableDifference:
        """What has become of the rows of a table; `changes` has those of at most `rows_max` rows of either side."""
        for schema_name, rows in ((_BEFORE, before), (_AFTER, after)):
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema_name}")
            self._register(schema_name, "state", rows)
        names = [n for n in _unique(before.schema.names) if n in _unique(after.schema.names)]
        columns = [n for n in names if n not in _OF_STORAGE] or names
        key = self._key([n for n in columns if not n.startswith("$")])
        changes = _by_key(columns, key) if key else _by_rows(columns)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE changes AS {changes}")
        counts = dict(
            self._connection.sql(f"SELECT {_OP}, sum({_TIMES})::BIGINT FROM changes GROUP BY ALL").fetchall()
        )
        op = _OP if "op" in columns else "op"
        shown = (
            f"SELECT {_OP} AS {op}, {_list(columns)} FROM changes, range({_TIMES}) "
            f"ORDER BY {_list(key or columns)}, {_OP} DESC LIMIT {rows_max}"
        )
        return TableDifference(
            name,
            before.num_rows,
            after.num_rows,
            counts.get("+I", 0),
            counts.get("-D", 0),
            counts.get("+U", 0),
            key,
            self._connection.sql(shown).to_arrow_table(),
        )

    def _key(self, columns: list[str]) -> tuple[str, ...] | None:
        """The first columns, as few as identify the rows on both sides: the keys of a keyed table come first."""
        for count in range(1, min(len(columns), _KEY_COLUMNS_MAX) + 1):
            key = _list(columns[:count])
            if not any(
                self._connection.sql(
                    f"SELECT 1 FROM {side}.state GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
                ).fetchall()
                for side in (_BEFORE, _AFTER)
            ):
                return tuple(columns[:count])
        return None


@contextlib.contextmanager
def state_database(config: Mapping[str, str]) -> Iterator[StateDatabase]:
    import duckdb

    with spill_directory() as directory:
        connection = duckdb.connect(":memory:", config=database_config(config, directory))
        try:
            connection.execute("SET TimeZone = 'UTC'")
            # A name in a query is a table of the checkpoint, never a variable of this program.
            connection.execute("SET python_enable_replacements = false")
            yield StateDatabase(connection)
        finally:
            connection.close()


def _by_key(columns: list[str], key: tuple[str, ...]) -> str:
    """A row per change, with its number, 1."""
    matches = " AND ".join(f"b.{quoted(k)} IS NOT DISTINCT FROM a.{quoted(k)}" for k in key)
    values = [n for n in columns if n not in key]
    differs = " OR ".join(f"b.{quoted(v)} IS DISTINCT FROM a.{quoted(v)}" for v in values) or "false"
    pairs = f"{_BEFORE}.state b JOIN {_AFTER}.state a ON {matches} WHERE {differs}"
    return f"""
        SELECT '-U' AS {_OP}, {_list(columns, "b")}, 1 AS {_TIMES} FROM {pairs}
        UNION ALL SELECT '+U', {_list(columns, "a")}, 1 FROM {pairs}
        UNION ALL SELECT '-D', {_list(columns, "b")}, 1 FROM {_BEFORE}.state b ANTI JOIN {_AFTER}.state a ON {matches}
        UNION ALL SELECT '+I', {_list(columns, "a")}, 1 FROM {_AFTER}.state a ANTI JOIN {_BEFORE}.state b ON {matches}
    """


def _by_rows(columns: list[str]) -> str:
    """A row per distinct row that one side has more often, with how much more often."""
    listed = _list(columns)
    counted = " UNION ALL ".join(
        f"SELECT {listed}, {sign} AS {_TIMES} FROM {side}.state"
        for side, sign in ((_BEFORE, -1), (_AFTER, 1))
    )
    return f"""
        SELECT CASE WHEN sum({_TIMES}) > 0 THEN '+I' ELSE '-D' END AS {_OP}, {listed}, abs(sum({_TIMES}))::BIGINT AS {_TIMES}
        FROM ({counted}) GROUP BY {listed} HAVING sum({_TIMES}) <> 0
    """


def _list(columns: Iterable[str], side: str = "") -> str:
    prefix = f"{side}." if side else ""
    return ", ".join(prefix + quoted(name) for name in columns)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unique(names: list[str]) -> list[str]:
    """Column names as DuckDB tells them apart: a later one of the same letters gets a number."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        number = seen[name.lower()] = seen.get(name.lower(), 0) + 1
        unique.append(name if number == 1 else f"{name}_{number}")
    return unique
