"""A table of a connection whose columns were checked, as a reader or a lookup selects them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.runtime.connectors.jdbc.dialect import dialect
from sqlstream.runtime.connectors.jdbc.driver import Connection
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.stored_table import Selection, StoredTable, check_columns
from sqlstream.runtime.connectors.sql_filters import where
from sqlstream.specs import SourceSpec


@dataclass(frozen=True)
class OpenedTable:
    """`condition` are the pushed filters in SQL, empty without one."""

    stored: StoredTable
    selection: Selection
    condition: str

    def where(self, added: str = "") -> str:
        """` WHERE …` of the filters and one more condition, which may be empty; empty without any."""
        parts = [part for part in (self.condition, added) if part]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def without_rows_ahead(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The batches of the selection's query, without the rows that are none of the table."""
        ahead = self.selection.rows_ahead
        for batch in batches:
            dropped = min(ahead, batch.num_rows)
            ahead -= dropped
            if batch.num_rows > dropped:
                yield batch.slice(dropped)


def open_table(connection: Connection, options: JdbcOptions, spec: SourceSpec) -> OpenedTable:
    """UserError SS5062 for a table or column that is not there, or has another type."""
    speaking = dialect(options.database.kind)
    stored = speaking.find_table(connection, options.table)
    types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    wanted = tuple((name, types[name]) for name in spec.columns)
    check_columns(stored, spec.table, wanted, speaking.can_read)
    filters = spec.filters if options.is_filtering else ()
    condition = where(filters, speaking.filtered(stored, wanted), speaking.day)
    selection = speaking.selection(stored, wanted, spec.table)
    return OpenedTable(stored, selection, condition.removeprefix(" WHERE "))
