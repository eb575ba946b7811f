"""WITH MUTUALLY RECURSIVE: queries of a WITH that read each other and themselves."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.functions.merging import common_type
from sqlstream.planner.bind.expressions.casts import plain, require_group_key
from sqlstream.planner.bind.recursion import next_level, reads
from sqlstream.planner.bind.scope import Namespace
from sqlstream.planner.bind.set_operations import converted, spans_of
from sqlstream.planner.dialect.nodes import MutualRecursion, column_types
from sqlstream.planner.relational.nodes import Filter, MutualIterate, Project, RecursiveScan, RelationalNode
from sqlstream.planner.relational.recursive_query import BINDING
from sqlstream.schema import Field, Schema
from sqlstream.types import BOOLEAN


def bind_mutual(query: exp.Expr, mutual: MutualRecursion, namespace: Namespace) -> Namespace:
    """`namespace` with those queries of the WITH of `query` that the rest of it reads. UserError SS3510 for a wrong number of
    columns, SS3511 for one of another type than it is declared to have."""
    clause = query.args["with_"]
    level = next_level(namespace)
    names, columns, inner = [], [], namespace
    for number, cte in enumerate(clause.expressions):
        names.append(str(cte.args["alias"].this.name))
        columns.append(_declared(cte, namespace))
        span = namespace.span(cte.args["alias"])
        scan = RecursiveScan(name=names[-1], level=level + number, schema=columns[-1], span=span)
        inner = inner.with_cte(names[-1], scan)
    bodies = tuple(_body(c, s, inner) for c, s in zip(clause.expressions, columns, strict=True))
    rest = [part for part in query.iter_expressions() if part is not clause]
    read = tuple(i for i, name in enumerate(names) if any(reads(part, name) for part in rest))
    if not read:
        return namespace
    node = MutualIterate(
        names=tuple(names),
        level=level,
        bodies=bodies,
        columns=tuple(columns),
        read=read,
        rounds_max=mutual.rounds_max,
        is_error=mutual.is_error,
        schema=_result(columns, read),
        span=namespace.span(clause),
    )
    for number in read:
        namespace = namespace.with_cte(names[number], _rows_of(node, number))
    return namespace


def _declared(cte: exp.Expr, namespace: Namespace) -> Schema:
    alias = cte.args["alias"]
    names = [str(column.name) for column in alias.args["columns"]]
    for place, name in enumerate(names):
        if name in names[:place]:
            column = alias.args["columns"][place]
            raise UserError(
                "SS2012", f'column "{name}" is declared twice', span=namespace.span(column), hint="rename one"
            )
    fields = tuple(Field(n, t) for n, t in zip(names, column_types(cte), strict=True))
    for column, field in zip(alias.args["columns"], fields, strict=True):
        require_group_key(InputRef(0, field.type), "WITH MUTUALLY RECURSIVE", namespace.span(column))
    return Schema(fields)


def _body(cte: exp.Expr, schema: Schema, namespace: Namespace) -> RelationalNode:
    """The query with the columns that it is declared to have."""
    name, query = str(cte.args["alias"].this.name), cte.this
    body = namespace.bind_subquery(query, namespace)
    if len(body.schema) != len(schema):
        raise UserError(
            "SS3510",
            f'the columns of "{name}" are {len(body.schema)} in its query, and {len(schema)} are declared',
            span=namespace.span(query),
            hint=f"select {', '.join(schema.names)}, or declare each column that it selects",
        )
    places = spans_of(query, len(schema), namespace)
    for field, found, place in zip(schema.fields, body.schema.types, places, strict=True):
        merged = common_type((field.type, found))
        is_kept = merged is not None and merged.same_as(field.type.with_nullable(merged.nullable))
        if not is_kept or (found.nullable and not field.type.nullable):
            missing = " NOT NULL" if is_kept else ""
            declared, is_found = f"{plain(field.type)}{missing}", plain(found)
            raise UserError(
                "SS3511",
                f'column "{field.name}" of "{name}" is declared as {declared}, and is {is_found} in its query',
                span=place,
                hint="declare it without NOT NULL, or have COALESCE give it a value"
                if is_kept
                else f"CAST it to {plain(field.type)}, or declare it as {plain(found)}",
            )
    return converted(body, schema, places)


def _result(columns: list[Schema], read: tuple[int, ...]) -> Schema:
    if len(read) == 1:
        return columns[read[0]]
    fields = (
        Field(f"${number}_{f.name}", f.type.with_nullable(True))
        for number in read
        for f in columns[number].fields
    )
    return Schema((BINDING, *fields))


def _rows_of(node: MutualIterate, number: int) -> RelationalNode:
    if len(node.read) == 1:
        return node
    first = 1 + sum(len(node.columns[n]) for n in node.read if n < number)
    own = node.columns[number].fields
    condition = Call("=", (InputRef(0, BINDING.type), Literal(number, BINDING.type)), BOOLEAN.not_null())
    rows = Filter(input=node, condition=condition, schema=node.schema, span=node.span)
    fields = tuple(Field(f.name, f.type.with_nullable(True)) for f in own)
    columns = tuple(InputRef(first + i, f.type) for i, f in enumerate(fields))
    return Project(input=rows, expressions=columns, schema=Schema(fields), span=node.span)
