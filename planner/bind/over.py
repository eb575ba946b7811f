"""ROW_NUMBER() OVER (PARTITION BY … ORDER BY …): columns appended below the SELECT list."""

from __future__ import annotations

from sqlglot import exp

from planner.bind.comparable import require_key, require_order
from planner.bind.scalar import ScalarBinder
from planner.dialect import nodes
from planner.relational.nodes import Project, RelationalNode, RowNumber
from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, SortKey
from sqlstream.schema import Field, Schema


def over_calls(node: exp.Expr | None) -> list[nodes.FunctionCall]:
    """The OVER calls anywhere in `node`."""
    check_not_given_up()
    if node is None:
        return []
    return [n for n in node.walk() if isinstance(n, nodes.FunctionCall) and n.args.get("over") is not None]


def add_row_numbers(
    input: RelationalNode, calls: list[nodes.FunctionCall], binder: ScalarBinder
) -> RelationalNode:
    """`input` with one column per distinct ROW_NUMBER; `binder` receives the map from syntax node to column."""
    node = input
    columns: dict[tuple[tuple[int, ...], tuple[SortKey, ...]], InputRef] = {}
    for call in calls:
        _check(call, binder)
        over = call.args["over"]
        keys, ordered = over.args.get("partition_by") or (), over.args.get("order_by") or ()
        partition = [require_key(binder.bind(e), "PARTITION BY", binder.span(e)) for e in keys]
        sorted_by = [require_order(binder.bind(o.this), binder.span(o.this)) for o in ordered]
        node, indexes = append_columns(node, partition + sorted_by)
        order = tuple(
            SortKey(i, bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for i, o in zip(indexes[len(partition) :], ordered, strict=True)
        )
        key = (tuple(dict.fromkeys(indexes[: len(partition)])), order)
        if key not in columns:
            columns[key] = InputRef(len(node.schema), sql.BIGINT.not_null())
            node = RowNumber(
                input=node,
                partition_keys=key[0],
                order=order,
                schema=Schema((*node.schema.fields, Field(f"ROW_NUMBER${len(columns)}", columns[key].type))),
                span=binder.span(call),
            )
        binder.over_columns[id(call)] = columns[key]
    return node


def append_columns(node: RelationalNode, expressions: list[Expression]) -> tuple[RelationalNode, list[int]]:
    """`node` with a further column per expression that is not one of its columns, and the column of each expression."""
    passed: list[Expression] = [InputRef(i, t) for i, t in enumerate(node.schema.types)]
    fields = list(node.schema.fields)
    indexes = []
    for expression in expressions:
        if isinstance(expression, InputRef):
            indexes.append(expression.index)
            continue
        if expression not in passed:
            passed.append(expression)
            fields.append(Field(f"$f{len(fields)}", expression.type))
        indexes.append(passed.index(expression))
    if len(fields) > len(node.schema):
        node = Project(input=node, expressions=tuple(passed), schema=Schema(tuple(fields)), span=node.span)
    return node, indexes


def _check(call: nodes.FunctionCall, binder: ScalarBinder) -> None:
    name, over = str(call.this), call.args["over"]
    if name != "ROW_NUMBER":
        raise UserError(
            "SS3001",
            f"{name}() OVER is not supported yet",
            span=binder.span(call),
            hint="ROW_NUMBER() is the one window function there is",
        )
    if call.expressions:
        raise UserError("SS2006", "ROW_NUMBER takes no arguments", span=binder.span(call))
    if not over.args.get("order_by"):
        raise UserError(
            "SS3004",
            "ROW_NUMBER() needs an ORDER BY in its OVER",
            span=binder.span(over) or binder.span(call),
            hint="write ROW_NUMBER() OVER (PARTITION BY key ORDER BY column)",
        )
    if over.args.get("frame") is not None:
        raise UserError("SS3004", "ROW_NUMBER() takes no frame", span=binder.span(over))
