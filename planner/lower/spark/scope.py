"""Values that a lowered expression uses several times, and errors that rows raise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.planner.lower import refusals, tree

ENGINE = "Spark"
_LENGTH_MAX = 160
"""A value whose text is no longer is repeated: Spark computes equal parts once, and the text of nested ones stays linear."""

Builder = Callable[[Call, list[exp.Expr], str], exp.Expr]
"""From a call, its lowered arguments and the session's time zone to the lowered call."""


def let(value: exp.Expr, body: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """`body(value)`, where body may use the value several times: a long one becomes the variable of a lambda."""
    written = value.sql(dialect="spark", normalize_functions=False)
    if len(written) <= _LENGTH_MAX:
        return body(value)
    # Named by its value, so that a name means the same wherever lambdas are nested.
    name = "x" + hashlib.sha256(written.encode()).hexdigest()[:12]
    function = exp.Lambda(this=body(_variable(name)), expressions=[_variable(name)])
    return tree.call(
        "element_at", tree.call("transform", tree.call("array", value), function), tree.number(1)
    )


def let_all(values: list[exp.Expr], body: Callable[..., exp.Expr]) -> exp.Expr:
    """`let` for several values: `body(*values)`."""
    if not values:
        return body()
    first, *rest = values
    return let(first, lambda x: let_all(rest, lambda *others: body(x, *others)))


def _variable(name: str) -> exp.Expr:
    return exp.Identifier(this=name, quoted=False)


def fail(message: str | exp.Expr, type_: exp.DataType) -> exp.Expr:
    """An error when a row evaluates it; a value of this type to Spark."""
    words = tree.text(message) if isinstance(message, str) else message
    return tree.cast(tree.call("raise_error", words), type_)


def refuse(what: str, *, hint: str = "") -> UserError:
    """SS3301, to be raised."""
    return refusals.refuse(ENGINE, what, hint=hint)
