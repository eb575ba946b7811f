"""LATERAL TABLE(VECTOR_SEARCH(TABLE t, DESCRIPTOR(v), q, 10)): the rows of a table nearest to a vector of each row before it."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.config_option import parse_duration_ms
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.expressions import Expression, InputRef, Literal
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly, cast_to, plain
from sqlstream.planner.bind.expressions.over import append_columns
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations.table_functions import written_arguments
from sqlstream.planner.bind.relations.temporal_join import without_times
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope, ScopeColumn, column_aliases
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import VectorSearch
from sqlstream.planner.relational.vector_search import VECTOR_SEARCH
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import VectorMetric
from sqlstream.types import TypeRoot

USAGE = "VECTOR_SEARCH(TABLE t, DESCRIPTOR(v), q, 10)"
SCORE = "score"
TOP_K_MAX = 10_000
_KINDS = {
    "search_table": "TABLE",
    "column_to_search": "DESCRIPTOR",
    "column_to_query": "VALUE",
    "top_k": "VALUE",
    "config": "VALUE",
}
_SHOWN = {"TABLE": "a table: TABLE t", "DESCRIPTOR": "a column: DESCRIPTOR(v)", "VALUE": "a value"}
_UNUSED = ("max-concurrent-operations", "output-mode", "timeout")
_VECTOR_ELEMENTS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)

BindItem = Callable[[exp.Expr, Namespace], FromItem]


def bind_vector_search(
    node: exp.Lateral, left: FromItem, is_outer: bool, namespace: Namespace, bind_item: BindItem
) -> FromItem:
    """All columns of `left`, those of the table, and `score`. UserError SS3526 for arguments that it does not take, SS3527 for
    columns that are no vectors."""
    call = node.this
    span = namespace.span(call)
    given = _arguments(call, namespace)
    table = without_times(bind_item(given["search_table"].this, namespace))
    vector = _searched(given["column_to_search"], table, namespace)
    query = _query(given["column_to_query"], left, namespace)
    widened, (place,) = append_columns(left.node, [query])
    columns = tuple(range(len(left.scope.columns)))
    alias = node.args.get("alias")
    name = str(alias.this.name) if alias is not None and alias.this is not None else ""
    names = list(table.node.schema.names)
    score, number = SCORE, 0
    while score in names:
        # Flink's way to tell equal names apart.
        score, number = f"{SCORE}{number}", number + 1
    names = list(column_aliases(alias, (*names, score), namespace) or (*names, score))
    types = [*table.node.schema.types, sql.DOUBLE.not_null()]
    made = tuple(
        Field(n, t.with_nullable(True) if is_outer else t) for n, t in zip(names, types, strict=True)
    )
    metric, reload_ms = _config(given.get("config"), namespace)
    search = VectorSearch(
        input=widened,
        columns=columns,
        query=place,
        table=table.node,
        vector=vector,
        top_k=_top_k(given["top_k"], namespace),
        metric=metric.value,
        is_outer=is_outer,
        reload_ms=reload_ms,
        schema=Schema(widened.schema.select(columns).fields + made),
        span=span,
    )
    width = len(columns)
    own = tuple(ScopeColumn(f.name, f.type, (name,) if name else ()) for f in made)
    scope = Scope((*left.scope.columns, *own), (*left.scope.star, *range(width, width + len(own))))
    return FromItem(search, scope)


def without_left(call: nodes.TableCall, namespace: Namespace) -> UserError:
    """SS3526, to be raised, for a call without LATERAL."""
    hint = f"write it behind the table with the vectors: FROM queries, LATERAL TABLE({USAGE})"
    return _refusal("VECTOR_SEARCH stands behind LATERAL", namespace.span(call), hint)


def _refusal(message: str, span: Span | None, hint: str = f"write {USAGE}") -> UserError:
    return UserError("SS3526", message, span=span, hint=hint)


def _arguments(call: nodes.TableCall, namespace: Namespace) -> dict[str, nodes.CallArgument]:
    given: dict[str, nodes.CallArgument] = {}
    for name, argument in written_arguments(
        call, VECTOR_SEARCH, list(_KINDS), given, namespace, _refusal, USAGE, folds_case=True
    ):
        span = namespace.span(argument)
        if str(argument.args["kind"]) != _KINDS[name]:
            raise _refusal(f'argument "{name}" of VECTOR_SEARCH is {_SHOWN[_KINDS[name]]}', span)
        if argument.args.get("partition_by") or argument.args.get("order"):
            raise _refusal("VECTOR_SEARCH takes no PARTITION BY or ORDER BY", span, "leave it out")
        given[name] = argument
    missing = next((name for name in _KINDS if name not in given and name != "config"), None)
    if missing is not None:
        message = f'VECTOR_SEARCH needs "{missing}", {_SHOWN[_KINDS[missing]]}'
        raise _refusal(message, namespace.span(call))
    return given


def _is_vector(column: sql.LogicalType) -> bool:
    element = column.element
    return column.root is TypeRoot.ARRAY and element is not None and element.root in _VECTOR_ELEMENTS


def _searched(argument: nodes.CallArgument, table: FromItem, namespace: Namespace) -> int:
    """The column of the table."""
    span = namespace.span(argument)
    if len(argument.expressions) != 1:
        raise _refusal("column_to_search is one column", span)
    bound = ScalarBinder(namespace, table.scope, VECTOR_SEARCH).bind(argument.expressions[0])
    assert isinstance(bound, InputRef)
    if not _is_vector(bound.type):
        message = f"the column to search is an ARRAY<FLOAT> or ARRAY<DOUBLE>, not {plain(bound.type)}"
        hint = "declare the column of the table so, or CAST it in a view that is searched"
        raise UserError("SS3527", message, span=span, hint=hint)
    return bound.index


def _query(argument: nodes.CallArgument, left: FromItem, namespace: Namespace) -> Expression:
    span = namespace.span(argument)
    bound = ScalarBinder(namespace, left.scope, VECTOR_SEARCH).bind(argument.this)
    if _is_vector(bound.type):
        return bound
    wanted = sql.array(sql.DOUBLE)
    if not can_cast_implicitly(bound.type, wanted):
        message = f"what is searched for is an ARRAY<FLOAT> or ARRAY<DOUBLE>, not {plain(bound.type)}"
        raise UserError("SS3527", message, span=span, hint="CAST(… AS ARRAY<DOUBLE>)")
    return cast_to(bound, wanted, span)


def _top_k(argument: nodes.CallArgument, namespace: Namespace) -> int:
    span = namespace.span(argument)
    bound = ScalarBinder(namespace, Scope(), VECTOR_SEARCH).bind(argument.this)
    value = bound.value if isinstance(bound, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TOP_K_MAX:
        raise _refusal(f"top_k is a whole number from 1 to {TOP_K_MAX:,}", span, "write a number such as 10")
    return value


def _config(argument: nodes.CallArgument | None, namespace: Namespace) -> tuple[VectorMetric, int]:
    """The metric, and after how long the table is read again. UserError SS3526 for settings that have no use: nothing is waited
    for."""
    if argument is None:
        return VectorMetric.COSINE, 0
    written, example = argument.this, "write MAP['metric', 'l2']"
    is_map = isinstance(written, nodes.FunctionCall) and str(written.this).upper() == "MAP"
    parts = written.expressions if is_map else []
    if not parts or len(parts) % 2 or not all(isinstance(p, exp.Literal) and p.is_string for p in parts):
        raise _refusal("config is a MAP of texts in quotes", namespace.span(argument), example)
    metric, reload_ms = VectorMetric.COSINE, 0
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        name, text, span = str(key.this), str(value.this), namespace.span(key)
        if name == "metric":
            metrics = [metric.value for metric in VectorMetric]
            if text.lower() not in metrics:
                hint = did_you_mean(text.lower(), metrics) or f"write one of {', '.join(metrics)}"
                raise _refusal(f'there is no metric "{text}"', namespace.span(value), hint)
            metric = VectorMetric(text.lower())
        elif name == "reload":
            reload_ms = _duration_ms(text, namespace.span(value))
        elif name == "async" and text.lower() == "false":
            continue
        elif name in ("async", *_UNUSED):
            message = f'"{name}" has no use: the table is searched in the task, and no server is waited for'
            raise _refusal(message, span, "leave it out")
        else:
            hint = did_you_mean(name, ("metric", "reload", "async", *_UNUSED)) or example
            raise _refusal(f'config has no "{name}"', span, hint)
    return metric, reload_ms


def _duration_ms(text: str, span: Span | None) -> int:
    try:
        value = parse_duration_ms(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 2**53:
        message = f'"reload" is a duration of at least 1 ms, not "{text}"'
        raise _refusal(message, span, "write MAP['reload', '10 min']")
    return value
