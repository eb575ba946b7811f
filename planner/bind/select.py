"""SELECT, clause by clause in SQL's order of evaluation, one node per clause."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import require_group_key, require_order
from sqlstream.planner.bind.expressions.over import add_windows, over_calls
from sqlstream.planner.bind.expressions.scalar import ScalarBinder, StarColumn
from sqlstream.planner.bind.expressions.subqueries import Subqueries, has_subquery
from sqlstream.planner.bind.grouped import GroupedBinder, has_aggregate
from sqlstream.planner.bind.grouping import bind_group_window, key_sets, takes_group_window
from sqlstream.planner.bind.ordering import bind_limit, ordered_items, ordinal, sort_key
from sqlstream.planner.bind.relations.from_clause import bind_from
from sqlstream.planner.bind.relations.hints import StateTtl
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.relational.nodes import Aggregate, Filter, Project, RelationalNode
from sqlstream.schema import Field, Schema


@dataclasses.dataclass(frozen=True)
class _Item:
    """One output column before it is bound. `alias` is empty when the user gave none."""

    node: exp.Expr
    name: str
    alias: str = ""


def bind_select(select: exp.Select, namespace: Namespace) -> RelationalNode:
    """The plan of one SELECT with its ORDER BY and LIMIT."""
    lifetimes = StateTtl(select)
    source = bind_from(select, namespace, lifetimes)
    where = select.args.get("where")
    if where is not None:
        _refuse_aliases(select, where.this, "WHERE", source.scope, namespace)
        source = _filter(source, where.this, ScalarBinder(namespace, source.scope, "WHERE", Subqueries()))
    items = _expand(select, source.scope, namespace)
    order = ordered_items(select, len(items))
    node, binder = _group(select, items, order, source, namespace)
    having = select.args.get("having")
    if having is not None:
        _refuse_aliases(select, having.this, "HAVING", source.scope, namespace)
        binder.place = "HAVING"
        node = filter_rows(node, binder.bind_condition(having.this), binder, namespace.span(having))
    binder.place = "the SELECT list"
    qualify = select.args.get("qualify")
    parts = (*(i.node for i in items), *order, *([qualify.this] if qualify is not None else []))
    node = add_windows(node, [call for part in parts for call in over_calls(part)], binder)
    if qualify is not None:
        node = _qualify(qualify, items, node, binder)
    made = lifetimes.grouped(_project(select, items, order, node, binder), source)
    lifetimes.check_used()
    return made


def _qualify(
    qualify: exp.Expr, items: list[_Item], node: RelationalNode, binder: ScalarBinder
) -> RelationalNode:
    """The rows of `node` whose OVER columns pass the condition, which may name aliases of the SELECT list."""
    binder.aliases = {i.alias: binder.bind(i.node) for i in items if i.alias}
    binder.place = "QUALIFY"
    condition = binder.bind_condition(qualify.this)
    binder.place, binder.aliases = "the SELECT list", {}
    return filter_rows(node, condition, binder, binder.span(qualify))


def _refuse_aliases(
    select: exp.Select, condition: exp.Expr, place: str, scope: Scope, namespace: Namespace
) -> None:
    """UserError SS2003 for a name in WHERE or HAVING that only an alias of the SELECT list defines."""
    aliases = {str(i.args["alias"].name) for i in select.expressions if isinstance(i, exp.Alias)}
    hidden = aliases - {c.name for c in scope.columns}
    for column in nodes.walk_level(condition) if hidden else ():
        if not isinstance(column, exp.Column):
            continue
        if len(column.parts) == 1 and str(column.name) in hidden:
            raise UserError(
                "SS2003",
                f'{place} cannot see the alias "{column.name}" of the SELECT list',
                span=namespace.span(column),
                hint=_alias_rewrite(select, str(column.name), namespace),
            )


def _alias_rewrite(select: exp.Select, alias: str, namespace: Namespace) -> str:
    """A hint that says which expression to write instead of an alias."""
    for item in select.expressions:
        if isinstance(item, exp.Alias) and str(item.alias) == alias:
            text = namespace.context.source(namespace.span(item.this))
            if text and len(text) <= 60:
                return f"write the expression: {text}"
    return "repeat the expression, or name it in a subquery"


def _filter(source: FromItem, condition: exp.Expr, binder: ScalarBinder) -> FromItem:
    node = filter_rows(source.node, binder.bind_condition(condition), binder, binder.span(condition))
    return FromItem(node, source.scope)


def filter_rows(
    node: RelationalNode, condition: Expression, binder: ScalarBinder, span: Span | None
) -> RelationalNode:
    """The rows of `node` where `condition`, which `binder` has bound, holds."""
    assert binder.subqueries is not None
    if has_subquery(condition):
        return binder.subqueries.filtered(node, condition, binder.namespace.depth, span)
    return Filter(input=node, condition=condition, schema=node.schema, span=span)


def _expand(select: exp.Select, scope: Scope, namespace: Namespace) -> list[_Item]:
    """The SELECT list with `*` and `t.*` written out."""
    items: list[_Item] = []
    for node in select.expressions:
        if isinstance(node, exp.Star):
            if not scope.columns:
                raise UserError(
                    "SS2009",
                    "SELECT * needs a FROM",
                    span=namespace.span(node),
                    hint="name a table: SELECT * FROM t",
                )
            items += _star_items(scope, scope.star, node, namespace)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            qualifier = tuple(str(p.name) for p in node.parts[:-1])
            row = scope.row_column(qualifier)
            if row is not None:
                items += _field_items(scope, row, node, namespace)
                continue
            columns = scope.star_of(qualifier, namespace.span(node))
            items += _star_items(scope, columns, node.this, namespace)
        elif isinstance(node, exp.Alias):
            alias = str(node.args["alias"].name)
            items.append(_Item(node.this, alias, alias))
        elif isinstance(node, exp.Column | exp.Dot):
            items.append(_Item(node, str(node.name)))
        else:
            items.append(_Item(node, f"EXPR${len(items)}"))
    return items


def _star_items(scope: Scope, columns: tuple[int, ...], star: exp.Star, namespace: Namespace) -> list[_Item]:
    """The columns of `*`, without those of EXCEPT, with those of REPLACE in place of their namesakes, and with the names of
    RENAME."""
    names = [scope.columns[i].name for i in columns]
    left_out = _named(star.args.get("except_") or [], names, namespace)
    replaced = _named(star.args.get("replace") or [], names, namespace)
    renamed = _named(star.args.get("rename") or [], names, namespace, lambda part: str(part.this.name))
    for parts, what in ((replaced, "replaced"), (renamed, "renamed")):
        if both := [name for name in parts if name in left_out]:
            span = namespace.span(parts[both[0]])
            raise UserError(
                "SS2012", f'column "{both[0]}" is both left out and {what}', span=span, hint="leave one out"
            )
    if len(left_out) == len(set(names)):
        raise UserError("SS2009", "EXCEPT leaves no column", span=namespace.span(star), hint="keep a column")
    items = []
    for index, name in zip(columns, names, strict=True):
        shown = str(renamed[name].args["alias"].name) if name in renamed else name
        if name in replaced:
            items.append(_Item(replaced[name].this, shown, shown))
        elif name not in left_out:
            node = StarColumn(index=index)
            node.meta.update(star.meta)
            items.append(_Item(node, shown, shown if name in renamed else ""))
    return items


def _named(
    written: list[exp.Expr],
    names: list[str],
    namespace: Namespace,
    name_of: Callable[[exp.Expr], str] = lambda part: str(part.alias_or_name),
) -> dict[str, exp.Expr]:
    """Parts of a clause of `*` by the column that each names. UserError for an unknown one and for one that comes twice."""
    found: dict[str, exp.Expr] = {}
    for part in written:
        name, span = name_of(part), namespace.span(part)
        if name not in names:
            raise UserError(
                "SS2003",
                f'column "{name}" is none of the columns of *',
                span=span,
                hint=suggest(name, names, "columns"),
            )
        if name in found:
            raise UserError("SS2012", f'column "{name}" is named twice', span=span, hint="leave one out")
        found[name] = part
    return found


def _field_items(scope: Scope, row: int, star: exp.Column, namespace: Namespace) -> list[_Item]:
    """The fields of a ROW column, of which `row.*` writes the names."""
    if any(star.this.args.get(clause) for clause in ("except_", "replace", "rename")):
        hint = "name the fields that are wanted"
        raise UserError(
            "SS2009", "row.* takes no EXCEPT, REPLACE and RENAME", span=namespace.span(star), hint=hint
        )
    items = []
    for field in scope.columns[row].type.fields:
        node = StarColumn(index=row, field=field.name)
        node.meta.update(star.meta)
        items.append(_Item(node, field.name))
    return items


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
        *([qualify.this] if (qualify := select.args.get("qualify")) is not None else []),
        *(o.this for o in order),
    ]
    if group is None and having is None and not any(has_aggregate(p) for p in parts):
        return source.node, ScalarBinder(namespace, source.scope, "the SELECT list", Subqueries())
    binder, names = _grouped_binder(group, items, source, namespace)
    aliases = {i.alias for i in items if i.alias}
    for part in parts:
        if not (isinstance(part, exp.Column) and len(part.parts) == 1 and part.name in aliases):
            binder.register(part)
    return binder.aggregate(names, namespace.span(group or select)), binder


def _grouped_binder(
    group: exp.Group | None, items: list[_Item], source: FromItem, namespace: Namespace
) -> tuple[GroupedBinder, tuple[str, ...]]:
    """The binder above GROUP BY, and the names of its keys."""
    if group is not None and group.args.get("all"):
        grouped = [i.node for i in items if not _is_computed_above(i.node)]
    else:
        grouped = group.expressions if group is not None else []
    sets = key_sets(grouped, namespace)
    call = _group_window(sets, namespace)
    sets = [tuple(k for k in kept if not takes_group_window(k)) for kept in sets]
    written = [k for kept in sets for k in kept]
    bound, names = _group_keys(written, items, source.scope, namespace)
    keys, columns = tuple(names), tuple[Expression, ...]()
    window, node, key_names = None, source.node, tuple(names.values())
    if call is not None:
        if len(sets) > 1 and str(call.this) == "SESSION":
            hint = "write one SELECT for each set and join them with UNION ALL"
            message = "a SESSION has the keys of one GROUP BY, not of several sets"
            raise UserError("SS3440", message, span=namespace.span(call), hint=hint)
        window, columns = bind_group_window(call, keys, source.node, source.scope, namespace)
        node, keys, columns = window.node, (*keys, *window.columns), (*columns, *window.columns)
        key_names = (*key_names, "window_start", "window_end", "window_time")
    places = {key: i for i, key in enumerate(keys)}
    of_window = range(len(names), len(keys))
    indexed = tuple(frozenset({*(places[bound[id(k)]] for k in kept), *of_window}) for kept in sets)
    binder = GroupedBinder(
        namespace,
        source.scope,
        node,
        keys,
        "the SELECT list",
        window,
        columns,
        indexed if len(sets) > 1 else (),
    )
    return binder, key_names


def _is_computed_above(node: exp.Expr) -> bool:
    """Whether GROUP BY ALL leaves an item of the SELECT list out: an aggregate, an OVER column or a constant."""
    return isinstance(node, exp.Literal) or has_aggregate(node) or bool(over_calls(node))


def _group_window(sets: list[tuple[exp.Expr, ...]], namespace: Namespace) -> nodes.FunctionCall | None:
    """The group window, which all sets have. UserError SS3440 for several, and for one that a set leaves out."""
    found = [[k for k in kept if takes_group_window(k)] for kept in sets]
    windows = [k for kept in found for k in kept]
    if not windows:
        return None
    first = windows[0]
    assert isinstance(first, nodes.FunctionCall)
    others = [k for k in windows if k != first]
    if others:
        span = namespace.span(others[0])
        raise UserError(
            "SS3440", "GROUP BY takes one window", span=span, hint="nest the second in a subquery"
        )
    if not all(found):
        span, hint = namespace.span(first), "write it before GROUPING SETS, ROLLUP or CUBE"
        raise UserError("SS3440", "a grouping set leaves the window out", span=span, hint=hint)
    return first


def _group_keys(
    written: list[exp.Expr], items: list[_Item], scope: Scope, namespace: Namespace
) -> tuple[dict[int, Expression], dict[Expression, str]]:
    """The key of each syntax node by its id, and the names of the distinct keys in order."""
    binder = ScalarBinder(namespace, scope, "GROUP BY")
    bound: dict[int, Expression] = {}
    names: dict[Expression, str] = {}
    for key in written:
        if id(key) in bound:
            continue
        meant = _item_at(key, items, namespace) or key
        _check_key(key, items, scope, namespace)
        name = str(meant.name) if isinstance(meant, exp.Column) else f"$f{len(names)}"
        bound[id(key)] = require_group_key(binder.bind(meant), "GROUP BY", namespace.span(key))
        names.setdefault(bound[id(key)], name)
    return bound, names


def _item_at(key: exp.Expr, items: list[_Item], namespace: Namespace) -> exp.Expr | None:
    """The item of the SELECT list whose position GROUP BY names; None for a key that is no number."""
    if not isinstance(key, exp.Literal) or key.is_string:
        return None
    position = str(key.this)
    if not position.isdigit() or not 1 <= int(position) <= len(items):
        raise UserError(
            "SS2009",
            f"GROUP BY {position} is no position of the SELECT list, which has {len(items)} columns",
            span=namespace.span(key),
            hint="name the key, or a position from 1 on",
        )
    return items[int(position) - 1].node


def _check_key(node: exp.Expr, items: list[_Item], scope: Scope, namespace: Namespace) -> None:
    span = namespace.span(node)
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        alias = str(node.name)
        if alias in {i.alias for i in items} and alias not in {c.name for c in scope.columns}:
            raise UserError(
                "SS2003",
                f'GROUP BY cannot see the alias "{alias}" of the SELECT list',
                span=span,
                hint=_item_rewrite(items, [i.alias for i in items].index(alias) + 1, namespace),
            )


def _item_rewrite(items: list[_Item], position: int, namespace: Namespace) -> str:
    """A hint that says which expression to write in GROUP BY instead of an item of the SELECT list."""
    if 1 <= position <= len(items) and not _is_computed_above(items[position - 1].node):
        text = namespace.context.source(namespace.span(items[position - 1].node))
        if text and text != "*" and len(text) <= 60:
            return f"write GROUP BY {text}"
    return "write the expression itself, or GROUP BY ALL for all items that are no aggregates"


def _project(
    select: exp.Select,
    items: list[_Item],
    order: list[exp.Ordered],
    node: RelationalNode,
    binder: ScalarBinder,
) -> RelationalNode:
    namespace = binder.namespace
    expressions = [_bind_item(i, items, binder) for i in items]
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
    assert binder.subqueries is not None
    node, output = binder.subqueries.attached(node, output, namespace.depth)
    names = [i.name for i in items] + [f"$f{i}" for i in range(len(items), len(output))]
    fields = tuple(Field(n, e.type) for n, e in zip(names, output, strict=True))
    project = Project(
        input=node, expressions=tuple(output), schema=Schema(fields), span=namespace.span(select)
    )
    result: RelationalNode = project
    if select.args.get("distinct") is not None:
        for written, expression in zip(items, expressions, strict=True):
            require_group_key(expression, "SELECT DISTINCT", namespace.span(written.node))
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


def _bind_item(item: _Item, items: list[_Item], binder: ScalarBinder) -> Expression:
    try:
        return binder.bind(item.node)
    except UserError as error:
        # `SELECT a + 1 AS b, b * 2`: an alias of the same list.
        for other in items:
            if (
                other.alias
                and error.code == "SS2003"
                and error.message.startswith(f'column "{other.alias}" ')
            ):
                error.hint = (
                    f'"{other.alias}" names an item of this SELECT list, whose items do not see each other: '
                    "repeat the expression, or name it in a subquery"
                )
        raise


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
