"""The rows of a table in SQL: its columns, and of changes the rows that are left after all of them."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from sqlstream.batch_plan import CHANGE_COLUMNS, UNKNOWN_COLUMN
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect, refuse
from sqlstream.planner.lower.lowering import Lowering, numbered
from sqlstream.planner.relational.nodes import TableScan
from sqlstream.spi.changelog_options import has_tombstones

KIND, PLACE = (field.name for field in CHANGE_COLUMNS)
UNKNOWN = UNKNOWN_COLUMN.name


def lower_scan(node: TableScan, lowering: Lowering) -> exp.Expr:
    """The rows of a table. UserError SS3301 for a table, or columns of it, that the engine does not have."""
    engine, relation = lowering.engine, lowering.relations[node]
    if node.keeps_events:
        raise refuse(engine.title, "FOR SYSTEM_TIME AS OF with a table of changes", span=node.span)
    if relation is None:
        raise refuse(engine.title, f'table "{node.table.path.name}"')
    names = (*node.columns, *(field.name for field in node.metadata))
    repeated = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
    if repeated and node.metadata:
        raise refuse(engine.title, f'metadata column "{repeated[0]}", which is also a column')
    columns = [
        engine.scanned(tree.column(name, "s", is_quoted=True), t)
        for name, t in zip(names, node.schema.types, strict=False)
    ]
    count = len(columns)
    if not node.mode.is_insert_only:
        more = (UNKNOWN, KIND, PLACE) if node.marks_unknown else (KIND, PLACE)
        columns += [tree.column(name, "s") for name in more]
    made: exp.Expr = tree.select(numbered(columns), tree.alias(relation, "s"))
    if not node.mode.is_insert_only:
        made = _folded(node, made, engine)
        columns = columns[:count]
    if node.watermark is not None and node.watermark.adds_rowtime:
        rowtime = tree.alias(lowering.expression(node.watermark.rowtime), f"c{len(columns)}")
        made = tree.select([tree.star(), rowtime], tree.subquery(made, "i"))
    if node.filters:
        made = tree.select_all(made, where=lowering.condition(node.filters))
    return made


def _folded(node: TableScan, changes: exp.Expr, engine: EngineDialect) -> exp.Expr:
    """The rows that are there after all changes."""
    count = len(node.schema) - (node.watermark is not None and node.watermark.adds_rowtime)
    kept = [tree.input_column(i) for i in range(count)]
    first = count + node.marks_unknown
    kind, place = tree.input_column(first), tree.input_column(first + 1)
    kinds = (RowKind.INSERT, RowKind.UPDATE_AFTER)
    is_added = tree.is_in(kind, [tree.number(int(each)) for each in kinds])
    if node.mode is ChangelogMode.UPSERT:
        values = kept
        if node.marks_unknown:
            values = _known(node, kept, tree.input_column(count), place, engine)
        return _last_of_keys(node, changes, values, kind, place, is_added)
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
    node: TableScan, kept: list[exp.Expr], marks: exp.Expr, place: exp.Expr, engine: EngineDialect
) -> list[exp.Expr]:
    """The columns, each with the last value of it that some change of the same key has."""
    keys = [kept[i] for i, name in enumerate(node.columns) if name in node.table.primary_key]
    known = list(kept)
    for number, name in enumerate(node.columns):
        if name not in node.table.primary_key:
            is_marked = exp.Like(this=marks.copy(), expression=tree.text(f"%,{number},%"))
            has_value = tree.negated(tree.call("coalesce", is_marked, tree.boolean(False)))
            known[number] = engine.last_known(kept[number], tree.case([(has_value, place)]), keys)
    return known


def _last_of_keys(
    node: TableScan,
    changes: exp.Expr,
    values: list[exp.Expr],
    kind: exp.Expr,
    place: exp.Expr,
    is_added: exp.Expr,
) -> exp.Expr:
    """The last row of each primary key, unless it deletes."""
    kept = [tree.input_column(i) for i in range(len(values))]
    keys = [kept[i] for i, name in enumerate(node.columns) if name in node.table.primary_key]
    is_there = is_added
    if has_tombstones(dict(node.options)):
        names = enumerate(node.columns)
        told = [kept[i] for i, name in names if name not in node.table.primary_key]
        is_there = tree.any_of([tree.is_not_null(value) for value in told]) if told else tree.boolean(True)
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
