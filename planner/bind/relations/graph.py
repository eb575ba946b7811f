"""CONNECTED_COMPONENTS(TABLE t, DESCRIPTOR(a, b)) and its like: what an algorithm says of the vertices of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.planner.bind.expressions.casts import cast_to, plain
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.table_functions import written_arguments
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.tokens import GRAPH_FUNCTIONS
from sqlstream.planner.relational.nodes import GraphFunction, Project
from sqlstream.schema import Field, Schema
from sqlstream.specs.graph import GraphAlgorithm
from sqlstream.types import LogicalType, TypeRoot

BindItem = Callable[[exp.Expr, Namespace], FromItem]

DATA, EDGE = "data", "edge"


SOURCE, DAMPING, ITERATIONS = "source", "damping", "iterations"
ITERATIONS_MAX = 100
_DEFAULTS = {DAMPING: 0.85, ITERATIONS: 20}


@dataclasses.dataclass(frozen=True)
class _Function:
    """`usage` is a call of it, `parameters` the names of its constants."""

    usage: str
    parameters: tuple[str, ...] = ()


_FUNCTIONS = {
    GraphAlgorithm.CONNECTED_COMPONENTS: _Function("CONNECTED_COMPONENTS(TABLE t, DESCRIPTOR(a, b))"),
    GraphAlgorithm.SHORTEST_PATHS: _Function(
        "SHORTEST_PATHS(TABLE t, DESCRIPTOR(a, b), source => 1)", (SOURCE,)
    ),
    GraphAlgorithm.TRIANGLES: _Function("TRIANGLES(TABLE t, DESCRIPTOR(a, b))"),
    GraphAlgorithm.PAGERANK: _Function(
        "PAGERANK(TABLE t, DESCRIPTOR(a, b), damping => 0.85, iterations => 20)", (DAMPING, ITERATIONS)
    ),
    GraphAlgorithm.LABEL_PROPAGATION: _Function(
        "LABEL_PROPAGATION(TABLE t, DESCRIPTOR(a, b), iterations => 20)", (ITERATIONS,)
    ),
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
    schema = Schema((Field("vertex", vertex), *_values(algorithm, edge.schema, vertex)))
    constants = _constants(algorithm, given, vertex, namespace)
    made = GraphFunction(input=edge, algorithm=algorithm, arguments=constants, schema=schema, span=span)
    return FromItem(made, Scope.of(schema))


def _values(algorithm: GraphAlgorithm, edge: Schema, vertex: LogicalType) -> tuple[Field, ...]:
    """The columns behind that of the vertex."""
    count = sql.BIGINT.not_null()
    match algorithm:
        case GraphAlgorithm.CONNECTED_COMPONENTS:
            return (Field("component", vertex),)
        case GraphAlgorithm.LABEL_PROPAGATION:
            return (Field("label", vertex),)
        case GraphAlgorithm.TRIANGLES:
            return (Field("triangles", count),)
        case GraphAlgorithm.PAGERANK:
            return (Field("rank", sql.DOUBLE.not_null()),)
    if len(edge) == 2:
        return (Field("distance", count),)
    return (Field("distance", edge.types[2].not_null()), Field("hops", count))


def _constants(
    algorithm: GraphAlgorithm,
    given: dict[str, nodes.CallArgument],
    vertex: LogicalType,
    namespace: Namespace,
) -> tuple[tuple[str, int | float | str], ...]:
    """The constants of a call by name. UserError SS3456 for one that has no meaning."""
    found: list[tuple[str, int | float | str]] = []
    for name in _FUNCTIONS[algorithm].parameters:
        argument = given.get(name)
        if argument is None:
            found.append((name, _DEFAULTS[name]))
            continue
        span = namespace.span(argument)
        value = _literal_value(argument.this, span)
        wanted = {
            SOURCE: f"a vertex: a constant of type {plain(vertex)}",
            DAMPING: "a number from 0 to 1",
            ITERATIONS: f"a whole number from 1 to {ITERATIONS_MAX}",
        }[name]
        if not _is_in_range(name, value, vertex):
            message = f'argument "{name}" of {algorithm.value} is {wanted}'
            usage = _FUNCTIONS[algorithm].usage
            if sql.is_string(vertex):
                usage = usage.replace("source => 1", "source => 'a'")
            raise UserError("SS3456", message, span=span, hint=f"write {usage}")
        assert isinstance(value, int | float | str)
        found.append((name, float(value) if name == DAMPING else value))
    return tuple(found)


def _literal_value(node: exp.Expr, span: Span | None) -> object:
    """None for what is no literal."""
    literal = bind_literal(node, span)
    if literal is None or literal.type.root is not TypeRoot.DECIMAL:
        return None if literal is None else literal.value
    return float(str(literal.value))


def _is_in_range(name: str, value: object, vertex: LogicalType) -> bool:
    if name == SOURCE and sql.is_string(vertex):
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if name == DAMPING:
        return 0 <= value <= 1
    if not isinstance(value, int):
        return False
    if name == ITERATIONS:
        return 1 <= value <= ITERATIONS_MAX
    bits = 31 if vertex.root is sql.INT.root else 63
    return -(2**bits) <= value < 2**bits


def _refusal(message: str, span: Span | None, hint: str = "") -> UserError:
    return UserError("SS3454", message, span=span, hint=hint)


def _arguments(
    node: nodes.TableCall, algorithm: GraphAlgorithm, namespace: Namespace
) -> dict[str, nodes.CallArgument]:
    """What is written for each parameter."""
    function, name = _FUNCTIONS[algorithm], algorithm.value
    names = (DATA, EDGE, *function.parameters)
    given: dict[str, nodes.CallArgument] = {}
    for key, argument in written_arguments(
        node, name, names, given, namespace, _refusal, function.usage, folds_case=True
    ):
        wanted = {DATA: "TABLE", EDGE: "DESCRIPTOR"}.get(key, "VALUE")
        if str(argument.args["kind"]) != wanted:
            shown = {"TABLE": "a table", "DESCRIPTOR": "a DESCRIPTOR of columns", "VALUE": "a constant"}
            message = f'argument "{key}" of {name} is {shown[wanted]}'
            raise _refusal(message, namespace.span(argument), f"write {function.usage}")
        given[key] = argument
    for key in names:
        if key not in given and key not in _DEFAULTS:
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
    takes_weight = algorithm is GraphAlgorithm.SHORTEST_PATHS
    if len(columns) != 2 and not (takes_weight and len(columns) == 3):
        message = f"an edge is two columns, not {len(columns)}: the vertices at its ends"
        hint = f"write {_FUNCTIONS[algorithm].usage}"
        raise _refusal(message, span, f"{hint}, or DESCRIPTOR(a, b, weight)" if takes_weight else hint)
    vertex = _vertex_type(columns, argument, namespace)
    types = [
        vertex,
        vertex,
        *(_weight_type(c, w, namespace) for c, w in zip(columns[2:], argument.expressions[2:], strict=True)),
    ]
    expressions = [cast_to(column, type_, span) for column, type_ in zip(columns, types, strict=True)]
    fields = [
        Field(_name(column, source), expression.type)
        for column, expression in zip(columns, expressions, strict=True)
    ]
    names = _unique([field.name for field in fields])
    fields = [Field(name, field.type) for name, field in zip(names, fields, strict=True)]
    schema = Schema(tuple(fields))
    return Project(input=source.node, expressions=tuple(expressions), schema=schema, span=span)


def _unique(names: list[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    return [
        f"{name}{names[:i].count(name) - 1}" if name in names[:i] else name for i, name in enumerate(names)
    ]


def _name(column: Expression, source: FromItem) -> str:
    assert isinstance(column, InputRef)
    return source.node.schema.names[column.index]


def _weight_type(column: Expression, written: exp.Expr, namespace: Namespace) -> LogicalType:
    """BIGINT for whole numbers, DOUBLE for FLOAT and DOUBLE."""
    if sql.is_integer(column.type):
        return sql.BIGINT
    if column.type.root in sql.APPROXIMATE_ROOTS:
        return sql.DOUBLE
    message = f"the weight of an edge is a whole number or a DOUBLE, and this column is {plain(column.type)}"
    hint = "CAST it to DOUBLE in a subquery: TABLE (SELECT a, b, CAST(… AS DOUBLE) AS weight FROM t)"
    raise UserError("SS3455", message, span=namespace.span(written), hint=hint)


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
