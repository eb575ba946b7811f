"""The SQL that brings staged rows into a table, and that notes whose rows are in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.jdbc.stored_table import StoredTable
from sqlstream.runtime.connectors.sql_filters import quote
from sqlstream.runtime.connectors.staged_rows import KIND_COLUMN
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.specs.sink import SinkAction

NUMBER_COLUMN = "$number"
"""A column of staged rows: their order, across all writers of a job that may write the same key."""

_ADDED = f"IN ({int(RowKind.INSERT)}, {int(RowKind.UPDATE_AFTER)})"


def check_key(stored: StoredTable, spec: SinkSpec) -> None:
    """UserError SS5069 for a view, and for a table in which the primary key is not unique."""
    if stored.is_view:
        raise UserError(
            "SS5069", f"{stored.name} is a view, which cannot be written", hint="write to a table"
        )
    key = [spec.schema.names[k] for k in spec.primary_key]
    if key and frozenset(key) not in stored.unique_keys:
        listed = ", ".join(f'"{name}"' for name in key)
        raise UserError(
            "SS5069",
            f'table {stored.name} has no unique constraint over {listed}, the primary key of table "{spec.table}"',
            hint="add one in the database, which an upsert by key needs",
        )


def publish(
    item: str, spec: SinkSpec, staged: Sequence[str], value: Callable[[str], str] = quote
) -> Iterator[str]:
    """The statements, for staged rows in these tables. With a primary key the last row of each key counts: it is put in the place
    of the row with its key, or removes that one when it retracts. `value` makes a staged column what is written."""
    names = spec.schema.names
    columns = ", ".join(quote(name) for name in names)
    kind, number = quote(KIND_COLUMN), quote(NUMBER_COLUMN)
    values = ", ".join(value(name) for name in names)
    rows = " UNION ALL ".join(f"SELECT {columns}, {kind}, {number} FROM {table}" for table in staged)
    action = spec.action if isinstance(spec, ChangingSinkSpec) else None
    if action in (SinkAction.OVERWRITE, SinkAction.TRUNCATE):
        yield f"DELETE FROM {item}"
    if not spec.primary_key:
        yield f"INSERT INTO {item} ({columns}) SELECT {values} FROM ({rows}) AS s ORDER BY {number}"
        return
    keys = [names[k] for k in spec.primary_key]
    key = ", ".join(quote(name) for name in keys)
    last = (
        f'(SELECT * FROM (SELECT s.*, row_number() OVER (PARTITION BY {key} ORDER BY {number} DESC) AS "$nth"'
        f' FROM ({rows}) AS s) AS n WHERE "$nth" = 1) AS l'
    )
    removed = ", ".join(value(name) for name in keys)
    yield f"DELETE FROM {item} WHERE ({key}) IN (SELECT {removed} FROM {last} WHERE {kind} NOT {_ADDED})"
    others = [quote(name) for i, name in enumerate(names) if i not in spec.primary_key]
    upsert = (
        f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}" if others else "NOTHING"
    )
    # A row that is gone since UPDATE has read it stays so.
    is_there = f" AND ({removed}) IN (SELECT {key} FROM {item})" if action is SinkAction.UPDATE else ""
    yield (
        f"INSERT INTO {item} ({columns}) SELECT {values} FROM {last} WHERE {kind} {_ADDED}{is_there}"
        f" ON CONFLICT ({key}) DO {upsert}"
    )
