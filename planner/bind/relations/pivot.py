"""PIVOT: an aggregation in which each choice of values has columns of its own."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, inputs_of
from sqlstream.functions.merging import common_type
from sqlstream.planner.bind.expressions.casts import cast_to, plain, require_group_key
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.grouped import GroupedBinder, is_aggregate_call
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode, Union
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


# UNPIVOT: each row once for each of some columns, with the name and the value of the column.


def bind_unpivot(node: nodes.Unpivot, input: FromItem, namespace: Namespace) -> FromItem:
    """The columns that no choice names, the name of the choice, and its columns under the names of the values. Unless NULLs are
    included, rows without any value are left out. UserError SS3444 for a clause that cannot be meant."""
    span = namespace.span(node)
    names = [str(value.name) for value in node.args["values"]]
    choices = [_choice(choice, len(names), input, namespace) for choice in node.args["choices"]]
    taken = {column.index for columns in choices for column in columns}
    kept = [i for i in input.scope.star if i not in taken]
    label = sql.varchar(max(1, *(len(str(c.alias)) for c in node.args["choices"]))).not_null()
    values = []
    for place, name in enumerate(names):
        found = [columns[place].type.without_time_attribute() for columns in choices]
        common = common_type(tuple(found))
        if common is None:
            shown = ", ".join(dict.fromkeys(str(plain(t)) for t in found))
            hint = "CAST the columns in a subquery"
            raise UserError(
                "SS3444", f'the columns of value "{name}" have no common type: {shown}', span=span, hint=hint
            )
        values.append(Field(name, common))
    fields = [Field(input.scope.columns[i].name, input.scope.columns[i].type) for i in kept]
    schema = Schema((*fields, Field(str(node.args["name"].name), label), *values))
    branches: list[RelationalNode] = []
    for written, columns in zip(node.args["choices"], choices, strict=True):
        cells: tuple[Expression, ...] = tuple(
            cast_to(column, value.type, span) for column, value in zip(columns, values, strict=True)
        )
        source: RelationalNode = input.node
        if not node.args.get("with_nulls"):
            source = Filter(input=source, condition=_has_value(columns), schema=source.schema, span=span)
        expressions = (
            *(InputRef(i, input.scope.columns[i].type) for i in kept),
            Literal(str(written.alias), label),
            *cells,
        )
        branches.append(Project(input=source, expressions=expressions, schema=schema, span=span))
    made = branches[0] if len(branches) == 1 else Union(branches=tuple(branches), schema=schema, span=span)
    return FromItem(made, Scope.of(schema))


def _choice(choice: exp.Alias, width: int, input: FromItem, namespace: Namespace) -> list[InputRef]:
    columns = choice.this.expressions
    if len(columns) != width:
        message = f"a choice of UNPIVOT has {len(columns)} columns for {width} values"
        hint = "write a column for each value before FOR"
        raise UserError("SS3444", message, span=namespace.span(choice), hint=hint)
    binder = ScalarBinder(namespace, input.scope, "UNPIVOT")
    found = [binder.bind(column) for column in columns]
    for column, written in zip(found, columns, strict=True):
        if not isinstance(column, InputRef):
            hint = "give the expression a name in a subquery"
            raise UserError("SS3444", "UNPIVOT takes columns", span=namespace.span(written), hint=hint)
    return [column for column in found if isinstance(column, InputRef)]


def _has_value(columns: list[InputRef]) -> Expression:
    condition: Expression | None = None
    for column in columns:
        present = Call("IS NOT NULL", (column,), sql.BOOLEAN.not_null())
        condition = present if condition is None else Call("OR", (condition, present), sql.BOOLEAN.not_null())
    assert condition is not None
    return condition
