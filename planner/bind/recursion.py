"""WITH RECURSIVE: a query of WITH that reads itself."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import InputRef
from sqlstream.functions.merging import common_type
from sqlstream.planner.bind.expressions.casts import plain, require_group_key
from sqlstream.planner.bind.relations.from_clause import rename_columns
from sqlstream.planner.bind.scope import Namespace
from sqlstream.planner.bind.set_operations import bind_branches, check_width, converted, spans_of
from sqlstream.planner.relational.nodes import Iterate, RecursiveScan, RelationalNode, Union, walk_nodes
from sqlstream.schema import Field, Schema
from sqlstream.types import LogicalType, TypeRoot

_FORM = "write {name} AS (start UNION [ALL] step): the start reads tables alone, the step reads {name}"


def reads_itself(cte: exp.Expr) -> bool:
    """Whether the query of a WITH RECURSIVE has its own name in a FROM, where no inner WITH gives it another meaning."""
    name = str(cte.args["alias"].this.name)
    return reads(cte.this, name)


def bind_recursive(cte: exp.Expr, namespace: Namespace) -> RelationalNode:
    """The rows of the start, those that the step makes of them, and so on. `namespace` has the queries of the query's own WITH.

    The start decides the names and types, as in PostgreSQL; texts of any length are STRING. UserError SS3402 for another form,
    SS3403 for types that the step does not keep."""
    alias, query = cte.args["alias"], cte.this
    name, span = str(alias.this.name), namespace.span(cte)
    starts, steps = _members(query, name, namespace)
    is_distinct = bool(query.args.get("distinct"))
    (start,), _ = _bound(starts, namespace)
    start = rename_columns(start, alias, namespace)
    schema = Schema(tuple(Field(f.name, _kept(f.type)) for f in start.schema.fields))
    level = next_level(namespace)
    while True:
        scan = RecursiveScan(name=name, level=level, schema=schema, span=span)
        (step,), places = _bound(steps, namespace.with_cte(name, scan))
        check_width(start, step, "UNION", namespace.span(steps[0]))
        types = tuple(map(_widened, schema.types, step.schema.types))
        if types == schema.types:
            break
        schema = Schema(tuple(Field(f.name, t) for f, t in zip(schema.fields, types, strict=True)))
    for column, (field, found) in enumerate(zip(schema.fields, step.schema.types, strict=True)):
        _check_type(field, found, places[column])
        if is_distinct:
            require_group_key(InputRef(column, field.type), "UNION", places[column])
    start = converted(start, schema, spans_of(starts[0], len(schema), namespace))
    step = converted(step, schema, places)
    if not any(node is scan for node in walk_nodes(step)):
        raise _wrong_form(name, namespace.span(steps[0]))
    return Iterate(
        name=name, level=level, first=start, step=step, is_distinct=is_distinct, schema=schema, span=span
    )


def _bound(
    queries: list[exp.Expr], namespace: Namespace
) -> tuple[tuple[RelationalNode], tuple[Span | None, ...]]:
    """The UNION ALL of the queries, and the place of each of its columns."""
    branches, schema = bind_branches(queries, "UNION", namespace)
    places = spans_of(queries[0], len(schema), namespace)
    if len(branches) == 1:
        return (branches[0],), places
    return (Union(branches=branches, schema=schema, span=namespace.span(queries[0])),), places


def _members(query: exp.Expr, name: str, namespace: Namespace) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The queries of the start, and those of the step: of a chain of one kind of UNION those that read the name."""
    for clause in ("order", "limit", "offset"):
        if query.args.get(clause) is not None:
            hint = "sort and cut off where its result is read"
            place = namespace.span(query.args[clause])
            raise UserError(
                "SS3402", f'the recursive query "{name}" is not sorted or cut off', span=place, hint=hint
            )
    if type(query) is not exp.Union or query.args.get("by_name"):
        raise _wrong_form(name, namespace.span(query))
    members = [query.args["expression"]]
    left = query.this
    kind = bool(query.args.get("distinct"))
    while (
        type(left) is exp.Union
        and bool(left.args.get("distinct")) is kind
        and not any(left.args.get(clause) for clause in ("order", "limit", "offset", "with_", "by_name"))
    ):
        members.append(left.args["expression"])
        left = left.this
    members = [left, *reversed(members)]
    reading = [reads(member, name) for member in members]
    first = reading.index(True)
    if first == 0 or not all(reading[first:]):
        wrong = members[0] if first == 0 else members[first + reading[first:].index(False)]
        raise _wrong_form(name, namespace.span(wrong))
    return members[:first], members[first:]


def _wrong_form(name: str, span: Span | None) -> UserError:
    message = f'the recursive query "{name}" is not a start and a step'
    return UserError("SS3402", message, span=span, hint=_FORM.format(name=name))


def next_level(namespace: Namespace) -> int:
    """A level that no recursive query around this place has."""
    return 1 + max((n.level for n in namespace.ctes.values() if isinstance(n, RecursiveScan)), default=-1)


def reads(query: exp.Expr, name: str) -> bool:
    """Whether the query has the name in a FROM, where no inner WITH gives it another meaning."""
    return any(
        len(table.parts) == 1 and table.name == name and not _is_hidden(table, query, name)
        for table in query.find_all(exp.Table)
    )


def _is_hidden(table: exp.Expr, query: exp.Expr, name: str) -> bool:
    """Whether a WITH between the table and the query defines the name."""
    node: exp.Expr | None = table
    while node is not None:
        clause = node.args.get("with_")
        if clause is not None and any(str(c.args["alias"].this.name) == name for c in clause.expressions):
            return True
        if node is query:
            return False
        node = node.parent
    return False


# Types: those of the start, where the step keeps them.


def _kept(t: LogicalType) -> LogicalType:
    """The type of a column of the recursive query: a step may make texts longer."""
    if sql.is_string(t):
        return sql.STRING.with_nullable(t.nullable)
    if t.root in sql.BINARY_ROOTS:
        return sql.BYTES.with_nullable(t.nullable)
    return t.without_time_attribute()


def _widened(t: LogicalType, found: LogicalType) -> LogicalType:
    """The type with the NULLs of the step; that of the step for a column that is NULL in the start."""
    if t.root is TypeRoot.NULL and found.root is not TypeRoot.NULL:
        return _kept(found).with_nullable(True)
    return t.with_nullable(t.nullable or found.nullable)


def _check_type(field: Field, found: LogicalType, place: Span | None) -> None:
    merged = common_type((field.type, found))
    if merged is None or not merged.same_as(field.type.with_nullable(merged.nullable)):
        wider = "" if merged is None else f", or CAST it to {plain(merged)} in the start"
        raise UserError(
            "SS3403",
            f'column "{field.name}" is {plain(field.type)} in the start of the recursive query, and {plain(found)} in its step',
            span=place,
            hint=f"CAST it to {plain(field.type)} in the step{wider}",
        )
