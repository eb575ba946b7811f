"""UNION and VALUES: several relations or rows with common column types."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef, Literal
from sqlstream.functions.merging import common_type
from sqlstream.planner.bind.expressions.casts import cast_to, plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.ordering import bind_output_order
from sqlstream.planner.bind.relations.from_clause import single_row
from sqlstream.planner.bind.scope import Namespace, Scope
from sqlstream.planner.bind.select import distinct
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.guards import without_collection
from sqlstream.planner.relational.nodes import Project, RelationalNode, Union, Values
from sqlstream.schema import Field, Schema
from sqlstream.types import LogicalType, TimeAttribute


def bind_union(node: exp.Union, namespace: Namespace) -> RelationalNode:
    """UNION [ALL] [BY NAME]: columns by position, with the names of the first branch, or by name, with those of all branches;
    each of the type that all branches convert to."""
    is_by_name = bool(node.args.get("by_name"))
    converted, schema = bind_branches(_branches(node), "UNION", namespace, is_by_name)
    union: RelationalNode = Union(branches=converted, schema=schema, span=namespace.span(node))
    if node.args.get("distinct"):
        union = distinct(union)
    return bind_output_order(union, node, namespace)


def bind_branches(
    branches: list[exp.Expr], operation: str, namespace: Namespace, is_by_name: bool = False
) -> tuple[tuple[RelationalNode, ...], Schema]:
    """The queries that `operation` combines, with columns of common types and the names of the first."""
    inputs: list[RelationalNode] = []
    for branch in branches:
        inputs.append(namespace.bind_subquery(branch, namespace))
        if not is_by_name:
            check_width(inputs[0], inputs[-1], operation, namespace.span(branch))
    spans = [spans_of(b, len(i.schema), namespace) for b, i in zip(branches, inputs, strict=True)]
    if is_by_name:
        inputs, spans = _by_name(inputs, spans)
    width = len(inputs[0].schema)
    types = tuple(
        _column_type([i.schema.types[c] for i in inputs], c, lambda i: spans[i][c])  # noqa: B023
        for c in range(width)
    )
    schema = Schema(tuple(Field(n, t) for n, t in zip(inputs[0].schema.names, types, strict=True)))
    return tuple(converted(i, schema, s) for i, s in zip(inputs, spans, strict=True)), schema


def _by_name(
    inputs: list[RelationalNode], spans: list[tuple[Span | None, ...]]
) -> tuple[list[RelationalNode], list[tuple[Span | None, ...]]]:
    """The queries with the columns of all of them in one order, NULL where one has no column of the name. UserError SS2012 for a
    name that a query has twice."""
    for node, own_spans in zip(inputs, spans, strict=True):
        for column, name in enumerate(node.schema.names):
            if name in node.schema.names[:column]:
                hint = "give each column a name of its own, with AS"
                message = f'UNION BY NAME needs different names, and "{name}" is that of two columns'
                raise UserError("SS2012", message, span=own_spans[column], hint=hint)
    names = tuple(dict.fromkeys(name for node in inputs for name in node.schema.names))
    if all(node.schema.names == names for node in inputs):
        return inputs, spans
    made: list[RelationalNode] = []
    for node in inputs:
        own = {f.name: InputRef(i, f.type) for i, f in enumerate(node.schema.fields)}
        columns = tuple(own.get(name, Literal(None, sql.NULL)) for name in names)
        schema = Schema(tuple(Field(n, c.type) for n, c in zip(names, columns, strict=True)))
        made.append(Project(input=node, expressions=columns, schema=schema, span=node.span))
    places = [
        tuple(dict(zip(node.schema.names, s, strict=True)).get(name) for name in names)
        for node, s in zip(inputs, spans, strict=True)
    ]
    return made, places


def spans_of(query: exp.Expr, width: int, namespace: Namespace) -> tuple[Span | None, ...]:
    if namespace.fixed_span is not None:
        return (namespace.fixed_span,) * width
    return output_spans(query, width)


def _branches(node: exp.Union) -> list[exp.Expr]:
    """The branches of a chain of UNION ALL, which becomes one node; a UNION inside it stays one branch."""
    branches: list[exp.Expr] = []
    current: exp.Expr = node
    while True:
        branches.append(current.args["expression"])
        left = current.this
        nested = type(left) is exp.Union and not _has_own_clauses(left)
        is_other = left.args.get("by_name") != node.args.get("by_name")
        if not nested or is_other or left.args.get("distinct") or node.args.get("distinct"):
            return [left, *reversed(branches)]
        current = left


def _has_own_clauses(node: exp.Expr) -> bool:
    return any(node.args.get(name) is not None for name in ("order", "limit", "offset", "with_"))


def check_width(first: RelationalNode, other: RelationalNode, operation: str, span: Span | None) -> None:
    if len(first.schema) != len(other.schema):
        raise UserError(
            "SS2011",
            f"{operation} needs the same number of columns: {len(first.schema)} and {len(other.schema)}",
            span=span,
            hint="select as many columns on one side as on the other, with NULL for what is missing",
        )


def _column_type(
    given: list[LogicalType], position: int, span_of_row: Callable[[int], Span | None]
) -> LogicalType:
    # VALUES of thousands of rows have few distinct types.
    first_rows = {t: row for row, t in reversed(list(enumerate(given)))}
    types = sorted(first_rows, key=lambda t: first_rows[t])
    if len(types) == 1:
        return types[0]
    attributes = {t.time_attribute for t in types}
    shared = types[0]
    for end in range(2, len(types) + 1):
        merged = common_type(tuple(types[:end]))
        if merged is None:
            raise UserError(
                "SS2008",
                f"column {position + 1} is both {plain(shared)} and {plain(types[end - 1])}",
                span=span_of_row(first_rows[types[end - 1]]),
                hint="CAST one of them to the other's type",
            )
        shared = merged
    if len(attributes) == 1 and TimeAttribute.NONE not in attributes:
        return msgspec.structs.replace(shared, time_attribute=attributes.pop())
    return shared


def converted(node: RelationalNode, schema: Schema, spans: tuple[Span | None, ...]) -> RelationalNode:
    """`node` with the columns' names and types of `schema`, nullability aside."""
    if all(
        a.name == b.name and a.type.same_as(b.type)
        for a, b in zip(node.schema.fields, schema.fields, strict=True)
    ):
        return node
    expressions = tuple(
        cast_to(InputRef(i, f.type), wanted, spans[i])
        for i, (f, wanted) in enumerate(zip(node.schema.fields, schema.types, strict=True))
    )
    fields = tuple(Field(n, e.type) for n, e in zip(schema.names, expressions, strict=True))
    return Project(input=node, expressions=expressions, schema=Schema(fields), span=node.span)


def bind_values(node: exp.Values, namespace: Namespace) -> RelationalNode:
    """VALUES: literal rows in one node; a row with other expressions becomes a projection of its own."""
    with without_collection():
        values = _values(node, namespace)
    return bind_output_order(values, node, namespace)


def _values(node: exp.Values, namespace: Namespace) -> RelationalNode:
    binder = ScalarBinder(namespace, Scope(), "VALUES")
    written = [row.expressions for row in node.expressions]
    rows = [[binder.bind(e) for e in row] for row in written]
    columns: list[list[Expression]] = []
    fields: list[Field] = []
    for c in range(len(rows[0])):
        places = [row[c] for row in written]
        wanted = _column_type([row[c].type for row in rows], c, lambda i: namespace.span(places[i]))  # noqa: B023
        fields.append(Field(f"EXPR${c}", wanted))
        columns.append(
            [
                row[c] if row[c].type == wanted else cast_to(row[c], wanted, namespace.span(place))
                for row, place in zip(rows, places, strict=True)
            ]
        )
    typed = list(zip(*columns, strict=True))
    return _rows(typed, Schema(tuple(fields)), namespace.span(node))


def _rows(rows: list[tuple[Expression, ...]], schema: Schema, span: Span | None) -> RelationalNode:
    literals = [tuple(e.value for e in row if isinstance(e, Literal)) for row in rows]
    if all(len(values) == len(schema) for values in literals):
        return Values(rows=tuple(literals), schema=schema, span=span)
    projections = tuple(
        Project(input=single_row(span), expressions=row, schema=schema, span=span) for row in rows
    )
    if len(projections) == 1:
        return projections[0]
    return Union(branches=projections, schema=schema, span=span)


# The position of each output column of a query in the script, for errors about one column.


def output_spans(query: exp.Expr, width: int) -> tuple[Span | None, ...]:
    """One position per column of the query (`width` of them): its SELECT item, its value in the first row of VALUES, or the
    star that covers it; the whole query where no such place exists."""
    whole = (span_of(query),) * width
    items = _items(query)
    stars = [i for i in items if _is_star(i)]
    if len(stars) > 1 or (len(items) != width and not stars):
        return whole
    spans: list[Span | None] = []
    for item in items:
        shown = item.this if isinstance(item, exp.Alias) else item
        spans += [span_of(shown)] * (width - len(items) + 1 if _is_star(item) else 1)
    return tuple(spans)


def _items(query: exp.Expr) -> list[exp.Expr]:
    match query:
        case exp.Subquery() | exp.SetOperation():
            return _items(query.this)
        case exp.Select():
            return list(query.expressions)
        case exp.Values():
            row = query.expressions[0]
            return list(row.expressions) if isinstance(row, exp.Tuple) else [row]
    return []


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
