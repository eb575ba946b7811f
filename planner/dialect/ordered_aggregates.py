"""WITHIN GROUP (ORDER BY …) behind an aggregate call, as a function of an aggregate that is there."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.dialect.nodes import FunctionCall, OrderedCall

_PERCENTILES = ("PERCENTILE", "PERCENTILE_CONT")


def ordered_aggregate(node: FunctionCall) -> FunctionCall:
    """The call, or what LISTAGG, ARRAY_AGG, PERCENTILE and PERCENTILE_CONT with an order are: the binder refuses other ones."""
    order = node.args.get("order")
    if order is None or node.args.get("over") is not None or node.args.get("is_distinct"):
        return node
    keys = order.expressions
    if node.this in _PERCENTILES and len(keys) == 1 and len(node.expressions) == 1:
        share = node.expressions[0]
        if keys[0].args.get("desc"):
            share = exp.Sub(this=exp.Literal.number(1), expression=share)
            share.meta.update(node.expressions[0].meta)
        return FunctionCall(
            this="PERCENTILE", expressions=[keys[0].this, share], filter=node.args.get("filter")
        )
    if node.this in ("LISTAGG", "ARRAY_AGG") and node.expressions:
        return _of_rows(node, keys)
    return node


def _of_rows(node: FunctionCall, keys: list[exp.Expr]) -> OrderedCall:
    value = node.expressions[0]
    row = FunctionCall(this="ROW", expressions=[*(key.this for key in keys), *node.expressions])
    row.meta.update(value.meta)
    condition = node.args.get("filter")
    if node.this == "LISTAGG" or node.args.get("nulls") == "IGNORE":
        present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        present.meta.update(value.meta)
        present.this.meta.update(value.meta)
        condition = present if condition is None else exp.And(this=condition, expression=present)
    collected = FunctionCall(this="ARRAY_AGG", expressions=[row], filter=condition)
    collected.meta.update(value.meta)
    letters = "".join(
        ("D" if key.args.get("desc") else "A") + ("F" if key.args.get("nulls_first") else "L") for key in keys
    )
    name = "ORDERED_LIST" if node.this == "LISTAGG" else "ORDERED_ARRAY"
    return OrderedCall(this=name, expressions=[collected], keys=letters)
