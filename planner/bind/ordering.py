"""ORDER BY, LIMIT, OFFSET and FETCH."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream import config as settings
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, SortKey
from sqlstream.planner.bind.expressions.casts import field_orders, require_order
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.relational.nodes import Project, RelationalNode, Sort
from sqlstream.schema import Schema


def ordered_items(query: exp.Expr, width: int) -> list[exp.Ordered]:
    """The items of ORDER BY; ALL is one for each of the `width` output columns."""
    order = query.args.get("order")
    written = list(order.expressions) if order is not None else []
    return [
        each
        for item in written
        for each in (_of_all(item, width) if isinstance(item.this, exp.Star) else [item])
    ]


def _of_all(item: exp.Ordered, width: int) -> list[exp.Ordered]:
    items = []
    for position in range(1, width + 1):
        column = exp.Literal(this=str(position), is_string=False)
        one = exp.Ordered(this=column, desc=item.args.get("desc"), nulls_first=item.args.get("nulls_first"))
        for node in (column, one):
            node.meta.update(item.meta)
        items.append(one)
    return items


def ordinal(item: exp.Ordered, width: int, span: Span | None) -> int | None:
    """The 0-based output column that `ORDER BY 2` names; None when the item is no number."""
    node = item.this
    if not (isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()):
        return None
    position = int(str(node.this))
    if not 1 <= position <= width:
        raise UserError(
            "SS2009",
            f"ORDER BY {position} is not a position in the SELECT list",
            span=span,
            hint=f"positions go from 1 to {width}",
        )
    return position - 1


def sort_key(item: exp.Ordered, column: int) -> SortKey:
    return SortKey(column, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def bind_output_order(node: RelationalNode, query: exp.Expr, namespace: Namespace) -> RelationalNode:
    """`node` with the ORDER BY and LIMIT of `query`, where ORDER BY can name output columns only (UNION, VALUES)."""
    binder = ScalarBinder(namespace, Scope.of(node.schema), "ORDER BY")
    width = len(node.schema)
    items = ordered_items(query, width)
    expressions: list[Expression] = []
    for item in items:
        position = ordinal(item, width, namespace.span(item))
        bound = (
            binder.bind(item.this) if position is None else InputRef(position, node.schema.types[position])
        )
        expressions.append(require_order(bound, namespace.span(item.this)))
    wide, indexes = append_columns(node, expressions)
    order = tuple(sort_key(item, index) for item, index in zip(items, indexes, strict=True))
    return bind_limit(wide, order, width, query, namespace)


def bind_limit(
    node: RelationalNode, order: tuple[SortKey, ...], width: int, query: exp.Expr, namespace: Namespace
) -> RelationalNode:
    """A Sort over `node` when the query has an order or a limit, then a Project to the first `width` columns."""
    fetch = _row_count(query.args.get("limit"), "LIMIT", namespace)
    offset = _row_count(query.args.get("offset"), "OFFSET", namespace)
    if order and fetch < 0:
        fetch = _default_limit(namespace.context.config)
    node, order = _without_rows(node, order)
    if order or fetch >= 0 or offset > 0:
        span = namespace.span(query.args.get("order") or query.args.get("limit") or query.args.get("offset"))
        node = Sort(
            input=node, order=order, offset=max(offset, 0), fetch=fetch, schema=node.schema, span=span
        )
    if len(node.schema) == width:
        return node
    fields = node.schema.fields[:width]
    return Project(
        input=node,
        expressions=tuple(InputRef(i, f.type) for i, f in enumerate(fields)),
        schema=Schema(fields),
        span=node.span,
    )


def _without_rows(
    node: RelationalNode, order: tuple[SortKey, ...]
) -> tuple[RelationalNode, tuple[SortKey, ...]]:
    """The node with columns for the fields of rows that it is sorted by, and the order by these."""
    types = node.schema.types
    by = [
        found
        for key in order
        for found in field_orders(
            (InputRef(key.column, types[key.column]), key.is_descending, key.is_nulls_first)
        )
    ]
    wide, indexes = append_columns(node, [expression for expression, _, _ in by])
    return wide, tuple(SortKey(index, *flags) for index, (_, *flags) in zip(indexes, by, strict=True))


def _default_limit(config: Mapping[str, str]) -> int:
    """How many rows ORDER BY without a LIMIT keeps (Flink: FlinkLogicalSortBatchConverter); -1 for all."""
    is_batch = settings.get(config, "execution.runtime-mode") == "BATCH"
    return int(settings.get(config, "table.exec.sort.default-limit")) if is_batch else -1


def _row_count(clause: exp.Expr | None, name: str, namespace: Namespace) -> int:
    """The number of rows in a LIMIT or OFFSET clause; -1 when the clause is absent."""
    if clause is None:
        return -1
    node = clause.args["expression"]
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(str(node.this))
    raise UserError(
        "SS2008",
        f"{name} takes a whole number",
        span=namespace.span(node),
        hint=f"write a literal, as in {name} 10",
    )
