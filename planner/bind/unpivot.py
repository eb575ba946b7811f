"""UNPIVOT: each row once for each of some columns, with the name and the value of the column."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.functions.merging import common_type
from sqlstream.planner.bind.casts import cast_to, plain
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode, Union
from sqlstream.schema import Field, Schema


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
