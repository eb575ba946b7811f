"""Reading a table."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.batch_plan import CHANGE_COLUMNS, UNKNOWN_COLUMN
from sqlstream.catalog import CatalogTable
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.expressions import Expression, inputs_of, remap
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.planner.relational.trimming import Columns, Pruning, one_column, places_of
from sqlstream.planner.relational.wording import join_parts
from sqlstream.schema import Field
from sqlstream.specs.source import SourceWatermark
from sqlstream.spi.changelog_options import has_tombstones

if TYPE_CHECKING:
    from sqlstream.planner.lower.engine import EngineDialect
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


KIND, PLACE = (field.name for field in CHANGE_COLUMNS)
UNKNOWN = UNKNOWN_COLUMN.name


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TableScan(RelationalNode):
    """Physical `columns` then `metadata` columns of a table; the schema has exactly these, and the row time if `watermark`
    adds it. The binder puts computed columns and the watermark of the table into nodes above it. `options` are the table's
    options with hints applied.

    `filters`, `limit` and `watermark` are filled by push-down rules (see SourceSpec). `mode`: the changelog that the rows of the
    table make; one that is not INSERT_ONLY is read by one subtask, in the order of its changes, and only filters by the primary
    key are pushed down: they drop all changes of a row or none. `keeps_events`: its changes are read as they came, as versions of
    rows, and not made a changelog of whole rows. `keeps_changes`: all changes of a key count, not only the last one of a batch.
    `leaves_out_values`: its changes are events by key, and one that updates a row may lack values. `varying_metadata`: metadata
    keys that a row and its retraction have different values of.
    """

    table: CatalogTable
    options: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    metadata: tuple[Field, ...] = ()
    filters: tuple[Expression, ...] = ()
    limit: int = -1
    is_bounded: bool = True
    watermark: SourceWatermark | None = None
    mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    keeps_events: bool = False
    keeps_changes: bool = False
    leaves_out_values: bool = False
    varying_metadata: frozenset[str] = frozenset()

    @property
    def marks_unknown(self) -> bool:
        """Whether a column behind all others names the values that a change lacks."""
        return self.leaves_out_values and not self.keeps_events

    def describe(self) -> str:
        path = self.table.path
        return join_parts(
            f"table=['{path.name}']" if self.table.is_anonymous else f"table=[{path}]",
            f"columns=[{', '.join(self.columns)}]",
            f"metadata=[{', '.join(f.name for f in self.metadata)}]" if self.metadata else "",
            f"filters=[{', '.join(map(str, self.filters))}]" if self.filters else "",
            f"limit=[{self.limit}]" if self.limit >= 0 else "",
            f"watermark=[{self.watermark.expression}]" if self.watermark is not None else "",
            "" if self.mode.is_insert_only else f"changelog={self.mode}",
            "events" if self.keeps_events else "",
            "all changes" if self.keeps_changes else "",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        wanted = wanted | inputs_of(*self.filters) if self.filters else wanted
        wanted = wanted | self._columns_of_changes()
        kept = tuple(sorted(wanted)) or tuple(sorted(one_column(self.schema)))
        places = places_of(kept)
        count = len(self.columns)
        scan = dataclasses.replace(
            self,
            columns=tuple(self.columns[i] for i in kept if i < count),
            metadata=tuple(self.metadata[i - count] for i in kept if i >= count),
            schema=self.schema.select(kept),
            filters=tuple(remap(f, places) for f in self.filters),
        )
        return scan, places

    def _columns_of_changes(self) -> Columns:
        """The columns by which changes are applied, whether the query reads them or not."""
        if self.mode.is_insert_only:
            return frozenset()
        if has_tombstones(dict(self.options)):
            return frozenset(range(len(self.columns)))
        keys = self.table.primary_key
        return frozenset(i for i, name in enumerate(self.columns) if name in keys)

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        engine, relation = lowering.engine, lowering.relation_of(self)
        if self.keeps_events:
            raise refuse(engine.title, "FOR SYSTEM_TIME AS OF with a table of changes", span=self.span)
        if relation is None:
            raise refuse(engine.title, f'table "{self.table.path.name}"')
        names = (*self.columns, *(field.name for field in self.metadata))
        repeated = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
        if repeated and self.metadata:
            raise refuse(engine.title, f'metadata column "{repeated[0]}", which is also a column')
        columns = [
            engine.scanned(tree.column(name, "s", is_quoted=True), t)
            for name, t in zip(names, self.schema.types, strict=False)
        ]
        count = len(columns)
        if not self.mode.is_insert_only:
            more = (UNKNOWN, KIND, PLACE) if self.marks_unknown else (KIND, PLACE)
            columns += [tree.column(name, "s") for name in more]
        made: exp.Expr = tree.select(numbered(columns), tree.alias(relation, "s"))
        if not self.mode.is_insert_only:
            made = self._folded(made, engine)
            columns = columns[:count]
        if self.watermark is not None and self.watermark.adds_rowtime:
            rowtime = tree.alias(lowering.expression(self.watermark.rowtime), f"c{len(columns)}")
            made = tree.select([tree.star(), rowtime], tree.subquery(made, "i"))
        if self.filters:
            made = tree.select_all(made, where=lowering.condition(self.filters))
        return made

    def _folded(self, changes: exp.Expr, engine: EngineDialect) -> exp.Expr:
        """The rows that are there after all changes."""
        count = len(self.schema) - (self.watermark is not None and self.watermark.adds_rowtime)
        kept = [tree.input_column(i) for i in range(count)]
        first = count + self.marks_unknown
        kind, place = tree.input_column(first), tree.input_column(first + 1)
        kinds = (RowKind.INSERT, RowKind.UPDATE_AFTER)
        is_added = tree.is_in(kind, [tree.number(int(each)) for each in kinds])
        if self.mode is ChangelogMode.UPSERT:
            values = kept
            if self.marks_unknown:
                values = self._known(kept, tree.input_column(count), place, engine)
            return self._last_of_keys(changes, values, kind, place, is_added)
        # Of equal rows as many are left as were added more often than retracted.
        retracted = tree.case([(is_added, tree.number(0))], tree.number(1))
        number = tree.over(tree.call("row_number"), [*kept, retracted], [place])
        numbered_rows = tree.select(
            [
                *numbered([*kept, retracted, number]),
                tree.alias(tree.over(tree.call("sum", retracted), kept), f"c{count + 2}"),
            ],
            tree.subquery(changes, "i"),
        )
        is_left = tree.all_of(
            [
                tree.operate(exp.EQ, kind, tree.number(0)),
                tree.operate(exp.GT, place, tree.input_column(count + 2)),
            ]
        )
        return tree.select(kept, tree.subquery(numbered_rows, "i"), where=is_left)

    def _known(
        self, kept: list[exp.Expr], marks: exp.Expr, place: exp.Expr, engine: EngineDialect
    ) -> list[exp.Expr]:
        """The columns, each with the last value of it that some change of the same key has."""
        keys = [kept[i] for i, name in enumerate(self.columns) if name in self.table.primary_key]
        known = list(kept)
        for number, name in enumerate(self.columns):
            if name not in self.table.primary_key:
                is_marked = exp.Like(this=marks.copy(), expression=tree.text(f"%,{number},%"))
                has_value = tree.negated(tree.call("coalesce", is_marked, tree.boolean(False)))
                known[number] = engine.last_known(kept[number], tree.case([(has_value, place)]), keys)
        return known

    def _last_of_keys(
        self, changes: exp.Expr, values: list[exp.Expr], kind: exp.Expr, place: exp.Expr, is_added: exp.Expr
    ) -> exp.Expr:
        """The last row of each primary key, unless it deletes."""
        kept = [tree.input_column(i) for i in range(len(values))]
        keys = [kept[i] for i, name in enumerate(self.columns) if name in self.table.primary_key]
        is_there = is_added
        if has_tombstones(dict(self.options)):
            names = enumerate(self.columns)
            told = [kept[i] for i, name in names if name not in self.table.primary_key]
            is_there = (
                tree.any_of([tree.is_not_null(value) for value in told]) if told else tree.boolean(True)
            )
        last = exp.Ordered(this=place.copy(), desc=True, nulls_first=False)
        ranked = tree.select(
            numbered(
                [
                    *values,
                    tree.case([(is_there, tree.number(1))], tree.number(0)),
                    tree.over(tree.call("row_number"), keys, [last]),
                ]
            ),
            tree.subquery(changes, "i"),
            where=tree.operate(exp.NEQ, kind, tree.number(int(RowKind.UPDATE_BEFORE))),
        )
        flags = (tree.input_column(len(values)), tree.input_column(len(values) + 1))
        is_left = tree.all_of([tree.operate(exp.EQ, flag, tree.number(1)) for flag in flags])
        return tree.select(kept, tree.subquery(ranked, "i"), where=is_left)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return self.filters
