"""Writing to a table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogTable
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import LiteralValue
from sqlstream.planner.relational.node import SameColumnsNode
from sqlstream.planner.relational.trimming import Columns, Pruning, places_of
from sqlstream.specs.sink import OnConflict, SinkAction

if TYPE_CHECKING:
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sink(SameColumnsNode):
    """Write to a table; the input's columns are the table's writable columns in order, cast to their types.

    The table of a SELECT is that of `collect_table` (connector "collect"). `format_mode`: the widest changelog that the table's
    format takes. `on_conflict` says which of several rows with one primary key stays. `action` is what it does with rows that are
    there already: of UPDATE and DELETE the last column of the input, a BOOLEAN, says which rows they change. `partition` has the
    columns that an INSERT OVERWRITE gives values.
    """

    table: CatalogTable
    options: tuple[tuple[str, str], ...]
    format_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    on_conflict: OnConflict | None = None
    action: SinkAction | None = None
    partition: tuple[tuple[str, LiteralValue], ...] = ()

    def describe(self) -> str:
        action = "" if self.action is None else f", action=[{self.action.value}]"
        return f"table=[{self.table.path}], columns=[{', '.join(self.schema.names)}]{action}"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        every = tuple(range(len(self.input.schema)))
        trimmed = dataclasses.replace(self, input=pruning.exactly(self.input, frozenset(every), time))
        return trimmed, places_of(every)
