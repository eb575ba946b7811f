"""WITH BACKFILL of an INSERT: the histories of the tables that its query reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from sqlstream.catalog import ObjectPath
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, inputs_of
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.bind.context import resolve_path, suggest
from sqlstream.planner.bind.expressions.casts import cast_to
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.tables import bind_file, bind_table
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.dialect import nodes, statements
from sqlstream.planner.relational.nodes import (
    Filter,
    Join,
    Project,
    RelationalNode,
    TableScan,
    Watermark,
    rewrite,
    walk_nodes,
)
from sqlstream.planner.relational.union import Backfill
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, LogicalType, is_rowtime


class Backfills:
    """The histories that an INSERT names, by their tables. State: which of these the query has read.

    UserError SS3500 for a table that is not named, or named twice."""

    def __init__(self, statement: statements.Insert, namespace: Namespace) -> None:
        """`namespace` is that of a statement by itself, in which no table has a history."""
        self._namespace = namespace
        self._by_table: dict[ObjectPath, statements.Backfill] = {}
        self._read: set[ObjectPath] = set()
        self._group = ""
        for each in statement.backfills:
            parts = each.table.parts if each.table is not None else _only_table(statement.query, each)
            span = each.table.span if each.table is not None else each.span
            path = resolve_path(parts, namespace.catalog, namespace.database, span)
            if path in self._by_table:
                raise UserError(
                    "SS3500", f'table "{path.name}" has two histories', span=span, hint="leave one out"
                )
            self._by_table[path] = each
        self._group = ", ".join(sorted(f"{p.catalog}.{p.database}.{p.name}" for p in self._by_table))

    def over(self, live: RelationalNode, path: ObjectPath, span: Span | None) -> RelationalNode:
        """The rows of a table with those of its history, if it has one. UserError SS3501 for other columns, SS3502 for a
        condition that does not part rows for good, SS3504 for a table that cannot wait for its history."""
        backfill = self._by_table.get(path)
        if backfill is None:
            return live
        self._read.add(path)
        _check_waits(live, path, backfill.span)
        group = self._group
        held = rewrite(
            live,
            lambda node: dataclasses.replace(node, waits_for=group) if isinstance(node, TableScan) else node,
        )
        history = self._history(live, backfill)
        is_by_time = False
        if backfill.condition is not None:
            condition = self._condition(live, backfill.condition, path)
            is_by_time = _is_by_time(condition)
            held = Filter(input=held, condition=condition, schema=held.schema, span=backfill.span)
            before = Call("IS NOT TRUE", (condition,), BOOLEAN.not_null())
            history = Filter(input=history, condition=before, schema=history.schema, span=backfill.span)
        return Backfill(
            branches=(history, held),
            table=path.name,
            group=group,
            is_by_time=is_by_time,
            schema=live.schema,
            span=backfill.span,
        )

    def in_turns(self, query: RelationalNode) -> RelationalNode:
        """The query, whose histories are read one after another. In a LEFT JOIN that of the left side is the last, so that its
        rows find all their partners. UserError SS3500 for a table that the query does not read."""
        for path, each in self._by_table.items():
            if path not in self._read:
                raise UserError(
                    "SS3500",
                    f'the query does not read table "{path.name}"',
                    span=each.table.span if each.table is not None else each.span,
                    hint="name a table behind FROM of the query",
                )
        turns = {backfill: turn for turn, backfill in enumerate(_in_order(query))}
        return rewrite(
            query, lambda n: dataclasses.replace(n, turn=turns[n]) if isinstance(n, Backfill) else n
        )

    def _history(self, live: RelationalNode, backfill: statements.Backfill) -> RelationalNode:
        """The history with the columns of the table, found by their names. It needs no watermark: it is complete."""
        source, span = backfill.source, self._namespace.span(backfill.source)
        bind = bind_file if isinstance(source, nodes.FilePath) else bind_table
        found = rewrite(
            bind(source, self._namespace).node,  # type: ignore[arg-type]
            lambda node: node.input if isinstance(node, Watermark) else node,
        )
        columns = [_column(found.schema, field, span) for field in live.schema.fields]
        fields = (Field(f.name, f.type.without_time_attribute()) for f in live.schema.fields)
        return Project(input=found, expressions=tuple(columns), schema=Schema(tuple(fields)), span=span)

    def _condition(self, live: RelationalNode, condition: exp.Expr, path: ObjectPath) -> Expression:
        binder = ScalarBinder(self._namespace, Scope.of(live.schema, (path.name,)), "HAND OVER AT")
        bound = binder.bind_condition(condition)
        if not is_deterministic(bound):
            raise UserError(
                "SS3502",
                "HAND OVER AT has another value each time it is asked, so a row could be of both, or of none",
                span=self._namespace.span(condition),
                hint="compare a column with a constant: HAND OVER AT ts >= TIMESTAMP '2026-01-01 00:00:00'",
            )
        return bound


def _in_order(query: RelationalNode) -> Iterator[Backfill]:
    """Each history once, the right side of a join before the left one, and the other way round for a RIGHT JOIN: a row that is
    emitted without a partner then has none, and is not retracted for one that comes later."""
    seen: set[RelationalNode] = set()
    pending = [query]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Backfill):
            yield node
        else:
            is_right = isinstance(node, Join) and node.kind is JoinKind.RIGHT
            pending += reversed(node.inputs) if is_right else node.inputs


def _only_table(query: exp.Expr, backfill: statements.Backfill) -> tuple[str, ...]:
    """The name of the only table that the query reads."""
    queries = {str(cte.args["alias"].this.name) for cte in query.find_all(exp.CTE)}
    names = {tuple(str(part.name) for part in table.parts) for table in query.find_all(exp.Table)}
    names -= {(name,) for name in queries}
    if len(names) != 1:
        listed = ", ".join(sorted(f'"{name[-1]}"' for name in names)) or "no table by name"
        raise UserError(
            "SS3500",
            f"WITH BACKFILL does not say whose history it is: the query reads {listed}",
            span=backfill.span,
            hint="write WITH BACKFILL table FROM history",
        )
    return names.pop()


def _check_waits(live: RelationalNode, path: ObjectPath, span: Span) -> None:
    for node in walk_nodes(live):
        if isinstance(node, Watermark) and node.alignment is not None:
            raise UserError(
                "SS3504",
                f'table "{path.name}" waits for others by its watermark, and cannot wait for a history, too',
                span=span,
                hint="leave out 'scan.watermark.alignment.group', which is an option of the table or of its hint",
            )
        if isinstance(node, TableScan) and not node.mode.is_insert_only:
            raise UserError(
                "SS3504",
                f'table "{path.name}" has rows that are changes, and a history adds rows only',
                span=span,
                hint="read the table from its first change on, or from a snapshot that its connector takes",
            )


def _column(history: Schema, field: Field, span: Span | None) -> Expression:
    """The column of the history for a column of the table."""
    if field.name not in history.names:
        raise UserError(
            "SS3501",
            f'the history has no column "{field.name}"',
            span=span,
            hint=suggest(field.name, list(history.names), "columns")
            or "give it all columns of the table: by a view over it, or by CREATE TABLE",
        )
    index = history.index_of(field.name)
    own = history.types[index].without_time_attribute()
    wanted = field.type.without_time_attribute()
    if own.root is not wanted.root:
        raise UserError(
            "SS3501",
            f'column "{field.name}" is {_shown(own)} in the history, and {_shown(wanted)} in the table',
            span=span,
            hint=f"CAST it AS {_shown(wanted)} in a view, and name the view as history",
        )
    reference = InputRef(index, own)
    same = own.with_nullable(True) == wanted.with_nullable(True)
    return reference if same else cast_to(reference, wanted.with_nullable(own.nullable), span)


def _shown(t: LogicalType) -> str:
    return str(t.with_nullable(True))


def _is_by_time(condition: Expression) -> bool:
    """Whether all rows of the table are, by event time, at or after a moment that no row of the history reaches."""
    if not isinstance(condition, Call) or condition.function not in (">=", ">"):
        return False
    time, moment = condition.args
    if isinstance(time, Call) and time.function == "CAST" and time.type.root is time.args[0].type.root:
        # More digits, or fewer, leave times in their order.
        (time,) = time.args
    return isinstance(time, InputRef) and is_rowtime(time.type) and not inputs_of(moment)
