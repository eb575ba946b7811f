"""Joins of rows with those that each of them makes: UNNEST and LATERAL TABLE behind JOIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.planner.bind.from_item import FromItem
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.bind.scalar import ScalarBinder
from sqlstream.planner.relational.nodes import Filter

BindMade = Callable[[Any, FromItem, bool, Namespace], FromItem]
"""From the item of FROM, the rows before it, and whether those without made rows are kept, to both."""


def bind_row_join(
    left: FromItem,
    join: exp.Join,
    namespace: Namespace,
    bind: BindMade,
    title: str,
    made: str,
    outer_hint: str,
) -> FromItem:
    """`left` joined with what `bind` makes of its rows. UserError SS3442 for a join that has no meaning so, which calls the
    clause by `title`, and what it makes `made`."""
    node, on = join.this, join.args.get("on")
    side = join.args.get("side")
    kind = side or join.args.get("kind") or "INNER"
    if kind in ("RIGHT", "FULL", "SEMI", "ANTI") or join.args.get("using") or join.args.get("method"):
        written = "NATURAL" if join.args.get("method") else "USING" if join.args.get("using") else kind
        raise UserError(
            "SS3442",
            f"{title} takes no {written} join: its {made} belong to the rows before it",
            span=namespace.span(join),
            hint=f"write CROSS JOIN {title}(…) or LEFT JOIN {title}(…) ON TRUE",
        )
    is_outer = side == "LEFT"
    is_always = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    if is_outer and not is_always:
        message = f"LEFT JOIN {title} takes ON TRUE alone"
        raise UserError("SS3442", message, span=namespace.span(on), hint=outer_hint)
    qualifiers = {q[-1] for q in left.scope.qualifiers if q}
    alias = node.args.get("alias")
    if alias is not None and str(alias.this.name) in qualifiers:
        name, hint = str(alias.this.name), "give one of them another name with AS"
        raise UserError("SS2012", f'"{name}" is named twice in FROM', span=namespace.span(alias), hint=hint)
    item = bind(node, left, is_outer, namespace)
    if is_always or on is None:
        return item
    condition = ScalarBinder(namespace, item.scope, "ON").bind_condition(on)
    filtered = Filter(input=item.node, condition=condition, schema=item.node.schema, span=namespace.span(on))
    return FromItem(filtered, item.scope)
