"""SELECT, clause by clause in SQL's order of evaluation, one node per clause."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlglot import exp

from planner.bind.comparable import require_key, require_order
from planner.bind.from_clause import bind_from
from planner.bind.from_item import FromItem
from planner.bind.grouped import GroupedBinder, has_aggregate
from planner.bind.namespace import Namespace
from planner.bind.ordering import bind_limit, ordered_items, ordinal, sort_key
from planner.bind.over import add_row_numbers, over_calls
from planner.bind.scalar import ScalarBinder, StarColumn
from planner.bind.scope import Scope
from planner.dialect import nodes
from planner.relational.nodes import Aggregate, Filter, Project, RelationalNode
from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.schema import Field, Schema


@dataclasses.dataclass(frozen=True)
class _Item:
    """One output column before it is bound. `alias` is empty when the user gave none."""

    node: exp.Expr
    name: str
    alias: str = ""


def bind_select(select: exp.Select, namespace: Namespace) -> RelationalNode:
    """The plan of one SELECT with its ORDER BY and LIMIT."""
    source = bind_from(select, namespace)
    where = select.args.get("where")
    if where is not None:
        _refuse_aliases(select, where.this, source.scope, namespace)
        source = _filter(source, where.this, ScalarBinder(namespace, source.scope, "WHERE"))
    items = _expand(select, source.scope, namespace)
    order = ordered_items(select)
    node, binder = _group(select, items, order, source, namespace)
    having = select.args.get("having")
    if having is not None:
        binder.place = "HAVING"
        condition = binder.bind_condition(having.this)
        node = Filter(input=node, condition=condition, schema=node.schema, span=namespace.span(having))
    binder.place = "the SELECT list"
    calls = [call for part in (*(i.node for i in items), *order) for call in over_calls(part)]
    node = add_row_numbers(node, calls, binder)
    return _project(select, items, order, node, binder)


def _refuse_aliases(select: exp.Select, condition: exp.Expr, scope: Scope, namespace: Namespace) -> None:
    """UserError SS2003 for a name in WHERE that only an alias of the SELECT list defines."""
    aliases = {str(i.args["alias"].name) for i in select.expressions if isinstance(i, exp.Alias)}
    hidden = aliases - {c.name for c in scope.columns}
    for column in condition.find_all(exp.Column) if hidden else ():
        if len(column.parts) == 1 and str(column.name) in hidden:
            raise UserError(
                "SS2003",
                f'WHERE cannot see the alias "{column.name}" of the SELECT list',
                span=namespace.span(column),
                hint="repeat the expression, or name it in a subquery",
            )


def _filter(source: FromItem, condition: exp.Expr, binder: ScalarBinder) -> FromItem:
    bound = binder.bind_condition(condition)
    node = Filter(input=source.node, condition=bound, schema=source.node.schema, span=binder.span(condition))
    return FromItem(node, source.scope)


def _expand(select: exp.Select, scope: Scope, namespace: Namespace) -> list[_Item]:
    """The SELECT list with `*` and `t.*` written out."""
    items: list[_Item] = []
    for node in select.expressions:
        if isinstance(node, exp.Star):
            if not scope.columns:
                raise UserError("SS2009", "SELECT * needs a FROM", span=namespace.span(node))
            items += [_column_item(scope, i, node) for i in scope.star]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            qualifier = tuple(str(p.name) for p in node.parts[:-1])
            items += [_column_item(scope, i, node) for i in scope.star_of(qualifier, namespace.span(node))]
        elif isinstance(node, exp.Alias):
            alias = str(node.args["alias"].name)
            items.append(_Item(node.this, alias, alias))
        elif isinstance(node, exp.Column | exp.Dot):
            items.append(_Item(node, str(node.name)))
        else:
            items.append(_Item(node, f"EXPR${len(items)}"))
    return items


def _column_item(scope: Scope, index: int, star: exp.Expr) -> _Item:
    node = StarColumn(index=index)
    node.meta.update(star.meta)
    return _Item(node, scope.columns[index].name)


def _group(
    select: exp.Select,
    items: list[_Item],
    order: list[exp.Ordered],
    source: FromItem,
    namespace: Namespace,
) -> tuple[RelationalNode, ScalarBinder]:
    """The aggregation, if there is one, and the binder for the clauses above it."""
    group, having = select.args.get("group"), select.args.get("having")
    parts = [
        *(i.node for i in items),
        *([having.this] if having is not None else []),
        *(o.this for o in order),
    ]
    if group is None and having is None and not any(has_aggregate(p) for p in parts):
        return source.node, ScalarBinder(namespace, source.scope, "the SELECT list")
    keys, names = _group_keys(group, items, source.scope, namespace)
    binder = GroupedBinder(namespace, source.scope, source.node, keys, "the SELECT list")
    aliases = {i.alias for i in items if i.alias}
    for part in parts:
        if not (isinstance(part, exp.Column) and len(part.parts) == 1 and part.name in aliases):
            binder.register(part)
    return binder.aggregate(names, namespace.span(group or select)), binder


def _group_keys(
    group: exp.Group | None, items: list[_Item], scope: Scope, namespace: Namespace
) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    binder = ScalarBinder(namespace, scope, "GROUP BY")
    keys: dict[Expression, str] = {}
    for key in _flat_keys(group.expressions if group is not None else []):
        _check_key(key, items, scope, namespace)
        name = str(key.name) if isinstance(key, exp.Column) else f"$f{len(keys)}"
        keys.setdefault(require_key(binder.bind(key), "GROUP BY", namespace.span(key)), name)
    return tuple(keys), tuple(keys.values())


def _flat_keys(items: list[exp.Expr]) -> Iterator[exp.Expr]:
    """GROUP BY (a, b), c is GROUP BY a, b, c, and () adds nothing."""
    for item in items:
        is_row = isinstance(item, nodes.FunctionCall) and str(item.this) == "ROW"
        if is_row or isinstance(item, exp.Tuple):
            yield from _flat_keys(item.expressions)
        else:
            yield item


def _check_key(node: exp.Expr, items: list[_Item], scope: Scope, namespace: Namespace) -> None:
    span = namespace.span(node)
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        name = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}[type(node)]
        hint = "write one SELECT with GROUP BY for each set and join them with UNION ALL"
        raise UserError("SS3001", f"GROUP BY {name} is not supported yet", span=span, hint=hint)
    if isinstance(node, exp.Literal) and not node.is_string:
        raise UserError(
            "SS2009",
            f"GROUP BY {node.this} groups by a constant, not by a position",
            span=span,
            hint="write the expression itself",
        )
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        alias = str(node.name)
        if alias in {i.alias for i in items} and alias not in {c.name for c in scope.columns}:
            raise UserError(
                "SS2003",
                f'GROUP BY cannot see the alias "{alias}" of the SELECT list',
                span=span,
                hint="repeat the expression, or name it in a subquery",
            )


def _project(
    select: exp.Select,
    items: list[_Item],
    order: list[exp.Ordered],
    node: RelationalNode,
    binder: ScalarBinder,
) -> RelationalNode:
    namespace = binder.namespace
    expressions = [binder.bind(i.node) for i in items]
    binder.place = "ORDER BY"
    binder.aliases = _output_names(items, expressions)
    positions: list[int] = []
    output = list(expressions)
    for item in order:
        position = ordinal(item, len(items), namespace.span(item))
        bound = binder.bind(item.this) if position is None else expressions[position]
        require_order(bound, namespace.span(item.this))
        if bound not in output:
            output.append(bound)
        positions.append(output.index(bound) if position is None else position)
    names = [i.name for i in items] + [f"$f{i}" for i in range(len(items), len(output))]
    fields = tuple(Field(n, e.type) for n, e in zip(names, output, strict=True))
    project = Project(
        input=node, expressions=tuple(output), schema=Schema(fields), span=namespace.span(select)
    )
    result: RelationalNode = project
    if select.args.get("distinct") is not None:
        for written, expression in zip(items, expressions, strict=True):
            require_key(expression, "SELECT DISTINCT", namespace.span(written.node))
        if len(output) > len(items):
            raise UserError(
                "SS2009",
                "ORDER BY of a SELECT DISTINCT takes selected columns only",
                span=namespace.span(order[positions.index(len(items))]),
                hint="add the expression to the SELECT list",
            )
        result = distinct(project)
    keys = tuple(sort_key(item, position) for item, position in zip(order, positions, strict=True))
    return bind_limit(result, keys, len(items), select, namespace)


def _output_names(items: list[_Item], expressions: list[Expression]) -> dict[str, Expression]:
    """What an unqualified name in ORDER BY means: an alias, or the name of a selected column unless two share it."""
    named: dict[str, list[Expression]] = {}
    for item, expression in zip(items, expressions, strict=True):
        named.setdefault(item.name, []).append(expression)
    columns = {name: found[0] for name, found in named.items() if len(set(found)) == 1}
    return {**columns, **{i.alias: e for i, e in zip(items, expressions, strict=True) if i.alias}}


def distinct(node: RelationalNode) -> Aggregate:
    """The distinct rows of `node`."""
    fields = tuple(Field(f.name, f.type.without_time_attribute()) for f in node.schema.fields)
    return Aggregate(
        input=node, keys=tuple(range(len(fields))), calls=(), schema=Schema(fields), span=node.span
    )
