"""The FROM clause: items and joins → one `FromItem`."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.bind.expressions.user_functions import user_function
from sqlstream.planner.bind.relations.changelog_functions import bind_changelog_function
from sqlstream.planner.bind.relations.graph import bind_graph_function, is_graph_function
from sqlstream.planner.bind.relations.hints import LookupHint, StateTtl, check_hints_used, read_lookup_hints
from sqlstream.planner.bind.relations.joins import apply_lateral, bind_join
from sqlstream.planner.bind.relations.match_recognize import bind_match_recognize
from sqlstream.planner.bind.relations.models import ML_EVALUATE, ML_PREDICT, bind_ml_evaluate, bind_ml_predict
from sqlstream.planner.bind.relations.pivot import bind_pivot, bind_unpivot
from sqlstream.planner.bind.relations.process_table import bind_process_table
from sqlstream.planner.bind.relations.snapshot_join import bind_snapshot_join
from sqlstream.planner.bind.relations.table_functions import (
    bind_join_table_function,
    bind_join_unnest,
    bind_row_join,
    bind_table_function,
    bind_unnest,
)
from sqlstream.planner.bind.relations.tables import bind_file, bind_table, rename
from sqlstream.planner.bind.relations.temporal_join import bind_lookup_join
from sqlstream.planner.bind.relations.vector_search import bind_vector_search, without_left
from sqlstream.planner.bind.relations.windows import bind_window_tvf
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope, column_aliases
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import RelationalNode, Values
from sqlstream.planner.relational.vector_search import VECTOR_SEARCH
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot

_LATER: dict[type[exp.Expr], str] = {exp.Lateral: "LATERAL"}


def bind_from(select: exp.Select, namespace: Namespace, lifetimes: StateTtl) -> FromItem:
    """Bind all of FROM. A query without FROM reads one row without named columns."""
    clause = select.args.get("from_")
    if clause is None:
        check_hints_used(read_lookup_hints(select), select)
        _check_join_hints(select, Scope())
        return FromItem(single_row(namespace.span(select)), Scope())
    hints = read_lookup_hints(select)
    refuse_system_time(clause.this, namespace)
    item = bind_item(clause.this, namespace)
    for join in select.args.get("joins") or ():
        item = _bind_join(item, join, hints, namespace, lifetimes)
    # Last: a table that does not exist is the reason why a hint finds none.
    check_hints_used(hints, select)
    _check_join_hints(select, item.scope)
    return item


def _check_join_hints(select: exp.Select, scope: Scope) -> None:
    """UserError SS4003 for a hint on joins that names no table of FROM."""
    names = {column.qualifier[-1] for column in scope.columns if column.qualifier}
    # Tables whose columns are left out behind SEMI and ANTI are in no scope.
    for part in (select.args.get("from_"), *(select.args.get("joins") or ())):
        for node in nodes.walk_level(part) if part is not None else ():
            names |= {str(node.alias), str(node.name) if isinstance(node, exp.Table) else ""}
    for hint, table in nodes.join_hints(select):
        if table.parts[-1] not in names:
            raise UserError(
                "SS4003",
                f'the hint {hint} names "{table.parts[-1]}", which is no table of this FROM',
                span=table.span,
                hint=did_you_mean(table.parts[-1], sorted(names - {""})) or "name the alias of the table",
            )


def _bind_join(
    left: FromItem,
    join: exp.Join,
    hints: tuple[LookupHint, ...],
    namespace: Namespace,
    lifetimes: StateTtl | None = None,
) -> FromItem:
    if isinstance(join.this, exp.Lateral) and isinstance(join.this.this, exp.Subquery):
        return bind_lateral(left, join, namespace)
    if isinstance(join.this, exp.Lateral) and isinstance(join.this.this, nodes.SnapshotFunction):
        table = _bind_right(left, join.this.this.this, namespace)
        right = _with_alias(table, _alias_of(join.this), namespace)
        return bind_snapshot_join(left, right, table.node.schema, join, namespace)
    if is_table_function(join.this):
        return bind_join_table_function(left, join, namespace)
    if _is_vector_search(join.this):
        return bind_row_join(
            left, join, namespace, _bind_vector_search, "LATERAL TABLE", "nearest rows", _SEARCH_HINT
        )
    if isinstance(join.this, exp.Unnest):
        return bind_join_unnest(left, join, namespace)
    right = _bind_right(left, join.this, namespace)
    if isinstance(join.this, exp.Table) and join.this.args.get("version") is not None:
        return bind_lookup_join(left, right, join, hints, namespace)
    joined = bind_join(left, right, join, namespace)
    return joined if lifetimes is None else lifetimes.joined(joined, left, right)


def _bind_right(left: FromItem, node: exp.Expr, namespace: Namespace) -> FromItem:
    """The right side of a join; an error for a name that the left side has says how to reach it."""
    try:
        return bind_item(node, namespace)
    except UserError as error:
        if error.code not in ("SS2001", "SS2003"):
            raise
        tables = {q[-1] for q in left.scope.qualifiers if q}
        if isinstance(node, exp.Subquery) and any(
            f'"{table}" is not a table' in error.message for table in tables
        ):
            error.hint = (
                "write LATERAL before the subquery, which then reads the columns of what is before it"
            )
        if isinstance(node, exp.Table) and len(node.parts) == 1:
            columns = {c.name: c.type.root for c in left.scope.columns}
            if columns.get(str(node.name)) in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET):
                error.hint = (
                    f"write CROSS JOIN UNNEST({node.name}) AS u (element) for the elements of the column"
                )
        raise


def bind_lateral(left: FromItem, join: exp.Join, namespace: Namespace) -> FromItem:
    """`left` and, for each of its rows, the rows of LATERAL (SELECT …), which reads columns of `left`."""
    lateral, span = join.this, namespace.span(join)
    inner = namespace.within(left.scope)
    query = inner.bind_subquery(lateral.this.this, inner)
    right = _with_alias(FromItem(query, Scope.of(query.schema)), _alias_of(lateral), namespace)
    return apply_lateral(left, right, join, namespace, span)


def _alias_of(lateral: exp.Expr) -> exp.TableAlias | None:
    alias: exp.TableAlias | None = lateral.args.get("alias") or lateral.this.args.get("alias")
    return alias


def single_row(span: Span | None) -> RelationalNode:
    """One row with one column that has no name in scope: a batch without columns would have no length."""
    return Values(rows=((0,),), schema=Schema.of(("ZERO", sql.INT.not_null())), span=span)


def bind_item(node: exp.Expr, namespace: Namespace) -> FromItem:
    """Bind one item of FROM under its alias."""
    match node:
        case exp.Table():
            item = bind_table(node, namespace)
        case nodes.FilePath():
            item = bind_file(node, namespace)
        case nodes.WindowTvf():
            item = bind_window_tvf(node, bind_item(node.this, namespace), namespace)
        case nodes.ChangelogFunction():
            item = bind_changelog_function(node, bind_item(node.this, namespace), namespace)
        case nodes.MatchRecognize():
            item = bind_match_recognize(node, bind_item(node.this, namespace), namespace)
        case nodes.Pivot():
            item = bind_pivot(node, bind_item(node.this, namespace), namespace)
        case nodes.Unpivot():
            item = bind_unpivot(node, bind_item(node.this, namespace), namespace)
        case exp.Unnest():
            # It has read its alias.
            return bind_unnest(node, FromItem(single_row(namespace.span(node)), Scope()), False, namespace)
        case exp.Lateral() if is_table_function(node):
            # It has read its alias.
            row = FromItem(single_row(namespace.span(node)), Scope())
            return bind_table_function(node, row, False, namespace)
        case nodes.TableCall() if is_graph_function(node) and user_function(node, namespace) is None:
            item = bind_graph_function(node, namespace, bind_item)
        case exp.Lateral() if _is_vector_search(node):
            # It has read its alias.
            row = FromItem(single_row(namespace.span(node)), Scope())
            return _bind_vector_search(node, row, False, namespace)
        case nodes.TableCall() if node.this == VECTOR_SEARCH:
            raise without_left(node, namespace)
        case nodes.TableCall() if node.this == ML_PREDICT:
            item = bind_ml_predict(node, namespace, bind_item)
        case nodes.TableCall() if node.this == ML_EVALUATE:
            item = bind_ml_evaluate(node, namespace, bind_item)
        case nodes.TableCall():
            item = bind_process_table(node, namespace, bind_item)
        case exp.Lateral(this=nodes.SnapshotFunction()):
            raise UserError(
                "SS3499",
                "LATERAL SNAPSHOT needs a table on its left to join",
                span=namespace.span(node),
                hint="write orders AS o JOIN LATERAL SNAPSHOT(…) AS r ON o.k = r.k, or read the table itself",
            )
        case nodes.JoinedTables():
            item = bind_item(node.this, namespace)
        case exp.Subquery():
            query = namespace.bind_subquery(node.this, namespace)
            item = FromItem(query, Scope.of(query.schema))
        case _:
            what = _LATER.get(type(node), type(node).__name__.upper())
            raise UserError(
                "SS3001",
                f"{what} in FROM is not supported yet",
                span=namespace.span(node),
                hint="read a table, a view, a subquery or a table function",
            )
    for join in node.args.get("joins") or ():
        item = _bind_join(item, join, (), namespace)
    return _with_alias(item, node.args.get("alias"), namespace)


def _with_alias(item: FromItem, alias: exp.TableAlias | None, namespace: Namespace) -> FromItem:
    if alias is None:
        return item
    node = rename_columns(item.node, alias, namespace)
    if alias.this is None:
        return FromItem(node, item.scope)
    return FromItem(node, Scope.of(node.schema, (str(alias.this.name),)))


def rename_columns(node: RelationalNode, alias: exp.TableAlias, namespace: Namespace) -> RelationalNode:
    """`node` with the column names of `AS t (x, y)`. UserError SS2012 when their number differs or one is repeated."""
    names = column_aliases(alias, node.schema.names, namespace)
    return rename(node, names) if names else node


def refuse_system_time(item: exp.Expr, namespace: Namespace) -> None:
    """UserError SS3001 where FOR SYSTEM_TIME stands at a table that is not joined to another."""
    version = item.args.get("version") if isinstance(item, exp.Table) else None
    if version is not None:
        raise UserError(
            "SS3001",
            "FOR SYSTEM_TIME AS OF needs a table on its left to look up for",
            span=namespace.span(version),
            hint="write orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.proctime AS d ON o.k = d.k",
        )


_SEARCH_HINT = "filter the rows behind the search, in WHERE"


def _is_vector_search(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) and isinstance(node.this, nodes.TableCall)


def _bind_vector_search(node: exp.Lateral, left: FromItem, is_outer: bool, namespace: Namespace) -> FromItem:
    return bind_vector_search(node, left, is_outer, namespace, bind_item)


def is_table_function(node: exp.Expr) -> bool:
    """Whether an item of FROM is a call of a table function."""
    return isinstance(node, exp.Lateral) and isinstance(node.this, nodes.FunctionCall)
