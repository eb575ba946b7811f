"""UNNEST in FROM: the elements of a collection, which may be a column of the tables before it."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.bind.calls import bind_call
from sqlstream.planner.bind.column_aliases import column_aliases
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.over import append_columns
from sqlstream.planner.bind.row_joins import bind_row_join
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.bind.scope import Scope, ScopeColumn
from sqlstream.planner.relational.nodes import Unnest
from sqlstream.planner.relational.unnest import ORDINALITY
from sqlstream.types import LogicalType, TypeRoot

_OUTER_HINT = "filter the elements in a subquery, or compute the condition in SELECT"


def bind_unnest(node: exp.Unnest, left: FromItem, is_outer: bool, namespace: Namespace) -> FromItem:
    """`left` with a row per element of the collection. UserError SS3442 for a value that is no collection."""
    collection = _collection(node, left.scope, namespace)
    widened, (place,) = append_columns(left.node, [collection])
    columns = tuple(range(len(left.scope.columns)))
    has_ordinality = bool(node.args.get("offset"))
    alias, names = _names(node, collection.type, has_ordinality, namespace)
    unnest = Unnest.over(widened, place, columns, names, is_outer, has_ordinality)
    fields = unnest.schema.fields[len(columns) :]
    made = tuple(ScopeColumn(f.name, f.type, (alias,) if alias else ()) for f in fields)
    width = len(columns)
    scope = Scope((*left.scope.columns, *made), (*left.scope.star, *range(width, width + len(made))))
    return FromItem(unnest, scope)


def bind_join_unnest(left: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` joined with UNNEST of a value of its rows. UserError SS3442 for a join that has no meaning so."""
    return bind_row_join(left, join, namespace, bind_unnest, "UNNEST", "elements", _OUTER_HINT)


def _collection(node: exp.Unnest, scope: Scope, namespace: Namespace) -> Expression:
    """The ARRAY or MULTISET; a MAP is the ARRAY of its entries."""
    written = node.expressions[0]
    span = namespace.span(written)
    bound = ScalarBinder(namespace, scope, "UNNEST").bind(written)
    match bound.type.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return bound
        case TypeRoot.MAP:
            return bind_call("MAP_ENTRIES", (bound,), span)
    shown = bound.type.without_time_attribute().with_nullable(True)
    hint = "UNNEST a column of type ARRAY, MAP or MULTISET, or a value such as SPLIT(text, ',')"
    raise UserError("SS3442", f"UNNEST takes a collection, not {shown}", span=span, hint=hint)


def _names(
    node: exp.Unnest, collection: LogicalType, has_ordinality: bool, namespace: Namespace
) -> tuple[str, tuple[str, ...]]:
    """The alias, and the names of the columns: those of the alias, or the fields'. The one column of elements that are no ROW
    has the alias itself as its name."""
    alias = node.args.get("alias")
    name = str(alias.this.name) if alias is not None else ""
    element = collection.element
    assert element is not None
    fields = [f.name for f in element.fields] if element.root is TypeRoot.ROW else [name or "EXPR$0"]
    own = (*fields, *([ORDINALITY] if has_ordinality else ()))
    return name, column_aliases(alias, own, namespace) or own
