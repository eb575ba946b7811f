"""Queries: syntax tree + catalog → relational plan."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import FALSE, TRUE, AggregateCall, Call, Expression, InputRef, Literal, references
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import require_group_key
from sqlstream.planner.bind.expressions.user_functions import resolve_functions
from sqlstream.planner.bind.mutual_recursion import bind_mutual
from sqlstream.planner.bind.ordering import bind_output_order
from sqlstream.planner.bind.recursion import bind_recursive, reads_itself
from sqlstream.planner.bind.relations.from_clause import rename_columns
from sqlstream.planner.bind.scope import Namespace
from sqlstream.planner.bind.select import bind_select
from sqlstream.planner.bind.set_operations import bind_branches, bind_union, bind_values
from sqlstream.planner.dialect.nodes import mutual_recursion
from sqlstream.planner.relational.nodes import Aggregate, Filter, Project, RelationalNode, Union, Unnest
from sqlstream.schema import Field, Schema
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING


def bind_query(query: exp.Expr, context: BindContext) -> RelationalNode:
    """The relational plan of a SELECT, VALUES, WITH … or UNION. UserError with a position for a wrong query."""
    return bind_subquery(query, root_namespace(context))


def root_namespace(context: BindContext) -> Namespace:
    """The namespace of a user's statement, outside any view or WITH."""
    return Namespace(
        context, bind_subquery, catalog=context.current_catalog, database=context.current_database
    )


def bind_subquery(query: exp.Expr, namespace: Namespace) -> RelationalNode:
    """Bind a query at any depth; it can read the common table expressions of `namespace` and its own."""
    resolve_functions(query, namespace)
    namespace = _with_ctes(query, namespace)
    match query:
        case exp.Select():
            return bind_select(query, namespace)
        case exp.Union():
            return bind_union(query, namespace)
        case exp.Values():
            return bind_values(query, namespace)
        case exp.Subquery():
            return bind_output_order(bind_subquery(query.this, namespace), query, namespace)
        case exp.Intersect() | exp.Except():
            return bind_counted(query, namespace)
    raise UserError(
        "SS3001",
        f"{type(query).__name__.upper()} is not supported yet",
        span=namespace.span(query),
        hint="write SELECT, VALUES, or set operations of them",
    )


def _bind_cte(cte: exp.Expr, clause: exp.Expr, namespace: Namespace) -> RelationalNode:
    """A query of WITH, which can read those before it, and itself if it is recursive."""
    query, alias = cte.this, cte.args["alias"]
    try:
        if clause.args.get("recursive") and reads_itself(cte):
            return bind_recursive(cte, _with_ctes(query, namespace))
        return rename_columns(bind_subquery(query, namespace), alias, namespace)
    except UserError as error:
        for other in clause.expressions:
            name = str(other.args["alias"].this.name)
            if error.code == "SS2001" and error.message == f'table "{name}" does not exist':
                error.hint = f'define "{name}" before the query that reads it'
                if other is cte:
                    error.hint = "write WITH RECURSIVE for a query that reads itself"
        raise


def _with_ctes(query: exp.Expr, namespace: Namespace) -> Namespace:
    """Bind WITH in order: each expression can read those before it. UserError SS2012 for a repeated name."""
    clause = query.args.get("with_")
    names: set[str] = set()
    if clause is None:
        return namespace
    for cte in clause.expressions:
        alias = cte.args["alias"]
        name = str(alias.this.name)
        if name in names:
            raise UserError(
                "SS2012",
                f'"{name}" is defined twice in WITH',
                span=namespace.span(alias),
                hint="rename one",
            )
        names.add(name)
    mutual = mutual_recursion(clause)
    if mutual is not None:
        return bind_mutual(query, mutual, namespace)
    for cte in clause.expressions:
        name = str(cte.args["alias"].this.name)
        namespace = namespace.with_cte(name, _bind_cte(cte, clause, namespace))
    return namespace


# INTERSECT and EXCEPT: how often each row occurs on either side, and how often it then does in the result.
#
# Both sides are one UNION ALL that marks the side of each row; its groups have the two counts. NULLs are equal, as in
# GROUP BY.


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
            expressions=(*references(side.schema.types), *mark),
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
