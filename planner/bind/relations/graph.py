"""CONNECTED_COMPONENTS(TABLE t, DESCRIPTOR(a, b)) and its like: what an algorithm says of the vertices of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import cast_to, plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.tokens import GRAPH_FUNCTIONS
from sqlstream.planner.relational.nodes import GraphFunction, Project
from sqlstream.schema import Field, Schema
from sqlstream.specs.graph import GraphAlgorithm
from sqlstream.types import LogicalType

BindItem = Callable[[exp.Expr, Namespace], FromItem]

DATA, EDGE = "data", "edge"


@dataclasses.dataclass(frozen=True)
class _Function:
    """`usage` is a call of it, `parameters` the names of its constants."""

    usage: str
    parameters: tuple[str, ...] = ()


_FUNCTIONS = {
    GraphAlgorithm.CONNECTED_COMPONENTS: _Function("CONNECTED_COMPONENTS(TABLE t, DESCRIPTOR(a, b))"),
}


def is_graph_function(node: nodes.TableCall) -> bool:
    """Whether a call is one of a graph function: its name has no qualifier, and is none of a user's function."""
    return str(node.this) in GRAPH_FUNCTIONS and "qualifier" not in node.meta


def bind_graph_function(node: nodes.TableCall, namespace: Namespace, bind_item: BindItem) -> FromItem:
    """UserError SS3454 for arguments that do not fit, SS3455 for columns that are no vertices."""
    algorithm, span = GraphAlgorithm(str(node.this)), namespace.span(node)
    given = _arguments(node, algorithm, namespace)
    source = bind_item(given[DATA].this, namespace)
    if given[DATA].args.get("partition_by"):
        hint = "leave PARTITION BY out, and put the key into the vertices to tell graphs apart"
        raise _refusal(f"{algorithm.value} reads one graph", namespace.span(given[DATA]), hint)
    edge = _edge(algorithm, given[EDGE], source, namespace)
    vertex = edge.schema.types[0].not_null()
    schema = Schema((Field("vertex", vertex), *_values(algorithm, vertex)))
    made = GraphFunction(input=edge, algorithm=algorithm, schema=schema, span=span)
    return FromItem(made, Scope.of(schema))


def _values(algorithm: GraphAlgorithm, vertex: LogicalType) -> tuple[Field, ...]:
    return (Field("component", vertex),)


def _refusal(message: str, span: Span | None, hint: str = "") -> UserError:
    return UserError("SS3454", message, span=span, hint=hint)


def _arguments(
    node: nodes.TableCall, algorithm: GraphAlgorithm, namespace: Namespace
) -> dict[str, nodes.CallArgument]:
    """What is written for each parameter."""
    function, name = _FUNCTIONS[algorithm], algorithm.value
    names = (DATA, EDGE, *function.parameters)
    given: dict[str, nodes.CallArgument] = {}
    is_named = False
    for place, argument in enumerate(node.expressions):
        span = namespace.span(argument)
        written = argument.args.get("name")
        if written is None and is_named:
            raise _refusal("an argument without a name stands behind one with a name", span, "name it")
        if written is None and place >= len(names):
            raise _refusal(f"{name} takes at most {len(names)} arguments", span, f"write {function.usage}")
        is_named = written is not None
        key = names[place] if written is None else str(written.name).lower()
        if key not in names:
            raise _refusal(f'{name} has no argument "{key}"', span, suggest(key, list(names), "arguments"))
        if key in given:
            raise UserError("SS1001", f'argument "{key}" is given twice', span=span, hint="give it once")
        wanted = {DATA: "TABLE", EDGE: "DESCRIPTOR"}.get(key, "VALUE")
        if str(argument.args["kind"]) != wanted:
            shown = {"TABLE": "a table", "DESCRIPTOR": "a DESCRIPTOR of columns", "VALUE": "a constant"}
            raise _refusal(f'argument "{key}" of {name} is {shown[wanted]}', span, f"write {function.usage}")
        given[key] = argument
    for key in names:
        if key not in given:
            raise _refusal(
                f'{name} needs its argument "{key}"', namespace.span(node), f"write {function.usage}"
            )
    return given


def _edge(
    algorithm: GraphAlgorithm, argument: nodes.CallArgument, source: FromItem, namespace: Namespace
) -> Project:
    """The rows of `source` as edges: the vertices at their ends, of one type."""
    span = namespace.span(argument)
    binder = ScalarBinder(namespace, source.scope, algorithm.value)
    columns = [binder.bind(column) for column in argument.expressions]
    if len(columns) != 2:
        message = f"an edge is two columns, not {len(columns)}: the vertices at its ends"
        raise _refusal(message, span, f"write {_FUNCTIONS[algorithm].usage}")
    vertex = _vertex_type(columns, argument, namespace)
    expressions = [cast_to(column, vertex, span) for column in columns]
    fields = [
        Field(_name(column, source), expression.type)
        for column, expression in zip(columns, expressions, strict=True)
    ]
    if fields[0].name == fields[1].name:
        fields[1] = Field(f"{fields[1].name}0", fields[1].type)
    schema = Schema(tuple(fields))
    return Project(input=source.node, expressions=tuple(expressions), schema=schema, span=span)


def _name(column: Expression, source: FromItem) -> str:
    assert isinstance(column, InputRef)
    return source.node.schema.names[column.index]


def _vertex_type(
    columns: list[Expression], argument: nodes.CallArgument, namespace: Namespace
) -> LogicalType:
    """INT or BIGINT for whole numbers, else STRING."""
    types = [column.type for column in columns[:2]]
    for written, type_ in zip(argument.expressions, types, strict=False):
        if not sql.is_integer(type_) and not sql.is_string(type_):
            hint = "CAST it to BIGINT or STRING in a subquery: TABLE (SELECT CAST(…) AS a, … FROM t)"
            message = f"vertices are whole numbers or texts, and this column is {plain(type_)}"
            raise UserError("SS3455", message, span=namespace.span(written), hint=hint)
    if all(map(sql.is_string, types)):
        return sql.STRING
    if not all(map(sql.is_integer, types)):
        shown = " and ".join(map(plain, types))
        hint = "CAST one of them in a subquery: TABLE (SELECT CAST(…) AS a, … FROM t)"
        message = f"the vertices at the ends of an edge are of one type, not {shown}"
        raise UserError("SS3455", message, span=namespace.span(argument), hint=hint)
    is_long = any(t.root is sql.BIGINT.root for t in types)
    return sql.BIGINT if is_long else sql.INT
