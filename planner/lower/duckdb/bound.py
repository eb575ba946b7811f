"""Values that are computed once and named, so that SQL which reads them several times does not grow with nesting."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from sqlstream.planner.lower import tree

_INLINE_SIZE_MAX = 8
"""Nodes of a value that is repeated rather than named: a column, a constant with its type, a cast of these."""


def bound(
    value: exp.Expr, body: Callable[[exp.Expr], exp.Expr], *, is_always_named: bool = False
) -> exp.Expr:
    """`body(value)` with the value computed once: `list_transform([value], lambda v0: body(v0))[1]`.

    Short values are repeated instead, unless `is_always_named`.

    `body` is called twice: its names must be known before this one is chosen.
    """
    if not is_always_named and not value.find(exp.Var) and tree.size(value) <= _INLINE_SIZE_MAX:
        return body(value)
    taken = re.findall(r"LAMBDA v(\d+) ", tree.rendered(body(tree.column("v")), "duckdb").name)
    name = f"v{max(map(int, taken), default=-1) + 1}"
    named = exp.Lambda(this=body(tree.column(name)), expressions=[exp.Identifier(this=name, quoted=False)])
    items = tree.call("list_value", value)
    return tree.call("list_extract", tree.call("list_transform", items, named), tree.number(1))
