"""INTERSECT and EXCEPT: how often each row occurs on either side, and how often it then does in the result.

Both sides are one UNION ALL that marks the side of each row; its groups have the two counts. NULLs are equal, as in GROUP BY."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.expressions import FALSE, TRUE, AggregateCall, Call, Expression, InputRef, Literal
from sqlstream.planner.bind.calls import bind_call
from sqlstream.planner.bind.comparable import require_group_key
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.ordering import bind_output_order
from sqlstream.planner.bind.set_operations import bind_branches
from sqlstream.planner.relational.nodes import Aggregate, Filter, Project, RelationalNode, Union, Unnest
from sqlstream.schema import Field, Schema
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING

_COUNT = BIGINT.not_null()


def bind_counted(node: exp.SetOperation, namespace: Namespace) -> RelationalNode:
    """INTERSECT [ALL] or EXCEPT [ALL]. UserError SS2010 for columns that are no keys."""
    name, span = type(node).__name__.upper(), namespace.span(node)
    (left, right), schema = bind_branches([node.this, node.args["expression"]], name, namespace)
    for i, t in enumerate(schema.types):
        require_group_key(InputRef(i, t), name, span)
    counts = _counts(left, right, schema, span)
    width = len(schema)
    of_left, of_right = InputRef(width, _COUNT), InputRef(width + 1, _COUNT)
    is_all, is_except = not node.args.get("distinct"), isinstance(node, exp.Except)
    if is_except:
        kept = bind_call(">" if is_all else "=", (of_left, of_right) if is_all else (of_right, _ZERO), span)
        copies = bind_call("-", (of_left, of_right), span)
    else:
        kept = bind_call(">", (of_right, _ZERO), span)
        copies = bind_call("LEAST", (of_left, of_right), span)
    condition = bind_call("AND", (bind_call(">", (of_left, _ZERO), span), kept), span)
    found: RelationalNode = Filter(input=counts, condition=condition, schema=counts.schema, span=span)
    columns = tuple(InputRef(i, f.type) for i, f in enumerate(counts.schema.fields[:width]))
    fields = counts.schema.fields[:width]
    if is_all:
        found = _repeated(found, columns, fields, copies, span)
    found = Project(input=found, expressions=columns, schema=Schema(fields), span=span)
    return bind_output_order(found, node, namespace)


_ZERO = Literal(0, _COUNT)


def _counts(left: RelationalNode, right: RelationalNode, schema: Schema, span: Span | None) -> Aggregate:
    """The distinct rows of both sides, and the number of times that each occurs on the left and on the right."""
    width = len(schema)
    marks = (Field("$left", BOOLEAN.not_null()), Field("$right", BOOLEAN.not_null()))
    branches = tuple(
        Project(
            input=side,
            expressions=(*(InputRef(i, t) for i, t in enumerate(side.schema.types)), *mark),
            schema=Schema((*side.schema.fields, *marks)),
            span=side.span,
        )
        for side, mark in ((left, (TRUE, FALSE)), (right, (FALSE, TRUE)))
    )
    both = Union(branches=branches, schema=Schema((*schema.fields, *marks)), span=span)
    keys = tuple(Field(f.name, f.type.without_time_attribute()) for f in schema.fields)
    return Aggregate(
        input=both,
        keys=tuple(range(width)),
        calls=tuple(AggregateCall("COUNT", (), _COUNT, filter=width + i) for i in range(2)),
        schema=Schema((*keys, Field("$lefts", _COUNT), Field("$rights", _COUNT))),
        span=span,
    )


def _repeated(
    node: RelationalNode,
    columns: tuple[InputRef, ...],
    fields: tuple[Field, ...],
    copies: Expression,
    span: Span | None,
) -> RelationalNode:
    """The columns of each row `copies` times: beside the parts of a text of one separator less."""
    comma, one = Literal(",", STRING.not_null()), Literal(1, _COUNT)
    less = Call("CAST", (bind_call("-", (copies, one), span),), INT.not_null(), span)
    parts = bind_call("SPLIT", (bind_call("REPEAT", (comma, less), span), comma), span)
    wide = Project(
        input=node,
        expressions=(*columns, parts),
        schema=Schema((*fields, Field("$copies", parts.type))),
        span=span,
    )
    width = len(columns)
    return Unnest.over(wide, width, tuple(range(width)), ("$copy",), False, False)
