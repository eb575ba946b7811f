"""PIVOT: an aggregation in which each choice of values has columns of its own."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, inputs_of
from sqlstream.planner.bind.comparable import require_group_key
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.grouped import GroupedBinder, is_aggregate_call
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Project
from sqlstream.schema import Field, Schema


def bind_pivot(node: nodes.Pivot, input: FromItem, namespace: Namespace) -> FromItem:
    """A row for each value of the other columns of `input`, or of those that GROUP BY names; its columns are these, and for
    each choice one per aggregate over the rows of the choice. UserError SS3444 for a clause that cannot be meant."""
    aggregates = [_aggregate(written, namespace) for written in node.expressions]
    kept = _kept(node, [call for call, _ in aggregates], input, namespace)
    keys = tuple(InputRef(i, input.scope.columns[i].type) for i in kept)
    names = [input.scope.columns[i].name for i in kept]
    binder = GroupedBinder(namespace, input.scope, input.node, keys, "PIVOT")
    calls: dict[str, exp.Expression] = {}
    for choice in node.args["choices"]:
        condition = _condition(node, choice.this, namespace)
        for call, alias in aggregates:
            name = "_".join(part for part in (str(choice.alias), alias) if part)
            if name in calls:
                span, hint = namespace.span(choice), "name the choices and the aggregates with AS"
                raise UserError("SS3444", f'PIVOT makes two columns "{name}"', span=span, hint=hint)
            calls[name] = _filtered(call, condition)
    for made in calls.values():
        binder.register(made)
    span = namespace.span(node)
    aggregate = binder.aggregate(tuple(names), span)
    columns: list[Expression] = [InputRef(i, aggregate.schema.types[i]) for i in range(len(keys))]
    columns += [binder.bind(made) for made in calls.values()]
    fields = [Field(n, c.type) for n, c in zip([*names, *calls], columns, strict=True)]
    schema = Schema(tuple(fields))
    project = Project(input=aggregate, expressions=tuple(columns), schema=schema, span=span)
    return FromItem(project, Scope.of(schema))


def _aggregate(written: exp.Expr, namespace: Namespace) -> tuple[nodes.FunctionCall, str]:
    """An aggregate call and its alias."""
    call = written.this if isinstance(written, exp.Alias) else written
    if not (isinstance(call, nodes.FunctionCall) and is_aggregate_call(call)):
        hint = "write calls as SUM(x), and compute with the columns of PIVOT in the SELECT list"
        raise UserError(
            "SS3444", "PIVOT takes calls of aggregate functions", span=namespace.span(call), hint=hint
        )
    return call, str(written.alias) if isinstance(written, exp.Alias) else ""


def _kept(
    node: nodes.Pivot, calls: list[nodes.FunctionCall], input: FromItem, namespace: Namespace
) -> list[int]:
    """The columns of `input` that are the keys, in order."""
    binder = ScalarBinder(namespace, input.scope, "PIVOT")
    taken: set[int] = set()
    for column in node.args["columns"]:
        taken |= inputs_of(require_group_key(binder.bind(column), "PIVOT", namespace.span(column)))
    grouped = node.args.get("group_by")
    if grouped:
        found = [binder.bind(column) for column in grouped]
        for key, written in zip(found, grouped, strict=True):
            if not isinstance(key, InputRef):
                hint = "give the expression a name in a subquery"
                raise UserError(
                    "SS3444", "GROUP BY of PIVOT takes columns", span=namespace.span(written), hint=hint
                )
            require_group_key(key, "PIVOT", namespace.span(written))
        return list(dict.fromkeys(key.index for key in found if isinstance(key, InputRef)))
    for call in calls:
        condition = call.args.get("filter")
        for part in (*call.expressions, *([condition] if condition is not None else [])):
            if not isinstance(part, exp.Star):
                taken |= inputs_of(binder.bind(part))
    kept = [i for i in input.scope.star if i not in taken]
    for i in kept:
        column = input.scope.columns[i]
        require_group_key(
            InputRef(i, column.type), f'PIVOT over column "{column.name}"', namespace.span(node)
        )
    return kept


def _condition(node: nodes.Pivot, values: exp.Tuple, namespace: Namespace) -> exp.Expression:
    """The rows of a choice: each column has its value."""
    columns = node.args["columns"]
    if len(values.expressions) != len(columns):
        message = f"a choice of PIVOT has {len(values.expressions)} values for {len(columns)} columns"
        hint = "write a value for each column behind FOR"
        raise UserError("SS3444", message, span=namespace.span(values), hint=hint)
    condition: exp.Expression | None = None
    for column, value in zip(columns, values.expressions, strict=True):
        if any(isinstance(n, exp.Column) or nodes.is_query(n) for n in value.walk()):
            hint = "write out the values, each of which makes columns"
            raise UserError("SS3444", "PIVOT takes constant values", span=namespace.span(value), hint=hint)
        kind = exp.Is if isinstance(value, exp.Null) else exp.EQ
        equal = kind(this=column.copy(), expression=value.copy())
        equal.meta.update(value.meta)
        condition = equal if condition is None else exp.And(this=condition, expression=equal)
    assert condition is not None
    return condition


def _filtered(call: nodes.FunctionCall, condition: exp.Expression) -> nodes.FunctionCall:
    made, own = call.copy(), call.args.get("filter")
    made.set(
        "filter", condition.copy() if own is None else exp.And(this=own.copy(), expression=condition.copy())
    )
    return made
