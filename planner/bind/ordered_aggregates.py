"""Functions of the rows that an aggregate WITHIN GROUP has collected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.planner.bind.casts import plain
from sqlstream.planner.dialect import nodes
from sqlstream.types import NESTED_ROOTS, TypeRoot

if TYPE_CHECKING:
    from sqlstream.planner.bind.scalar import ScalarBinder


def bind_ordered(binder: ScalarBinder, node: nodes.OrderedCall) -> Expression:
    """The texts joined, or the array, in the order of the keys. UserError SS3461 for keys without an order, and for LISTAGG of
    what is no text."""
    span, letters = binder.span(node), str(node.args["keys"])
    rows = binder.bind(node.expressions[0])
    assert rows.type.element is not None
    fields = [field.type for field in rows.type.element.fields]
    keys, value = fields[: len(letters) // 2], fields[len(letters) // 2]
    for key in keys:
        if key.root in (*NESTED_ROOTS, TypeRoot.VARIANT):
            message = f"WITHIN GROUP takes no key of type {plain(key)}"
            raise UserError("SS3461", message, span=span, hint="order by a field or element of it")
    order = Literal(letters, sql.char(len(letters)).not_null())
    if node.this == "ORDERED_ARRAY":
        return Call("ORDERED_ARRAY", (rows, order), sql.array(value), span)
    texts = fields[len(keys) :]
    if len(texts) > 2 or not all(map(sql.is_string, texts)):
        shown = ", ".join(str(plain(t)) for t in texts)
        raise UserError(
            "SS3461",
            f"LISTAGG takes a text and a separator, not {shown}",
            span=span,
            hint="CAST the value to STRING",
        )
    return Call("ORDERED_LIST", (rows, order), sql.STRING, span)
