"""What is written alike in every batch engine."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.bitmap import BATCH_REASON
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.refusals import refuse
from sqlstream.types import LogicalType, TypeRoot

OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "IS DISTINCT FROM": exp.NullSafeNEQ,
    "IS NOT DISTINCT FROM": exp.NullSafeEQ,
    "AND": exp.And,
    "OR": exp.Or,
}
"""Comparisons and logic, by name."""


def operated(call: Call, args: list[exp.Expr], title: str) -> exp.Expr:
    """The call of an operator. UserError SS3301 for maps, which engines compare by the order of their entries."""
    if any(_holds_map(a.type) for a in call.args):
        raise refuse(title, f"{call.function} of maps", hint="compare their entries by key", span=call.span)
    return tree.operate(OPERATORS[call.function], *args)


def _holds_map(t: LogicalType) -> bool:
    return t.root in (TypeRoot.MAP, TypeRoot.MULTISET) or any(map(_holds_map, t.parts))


AGGREGATES = {
    "MIN": "min",
    "MAX": "max",
    "STDDEV_POP": "stddev_pop",
    **dict.fromkeys(("STDDEV", "STDDEV_SAMP"), "stddev_samp"),
    "VAR_POP": "var_pop",
    "VAR_SAMP": "var_samp",
    "VARIANCE": "var_samp",
}
"""Aggregate functions of one argument whose results are the stream's, by name."""

_ORDERED = "its result depends on the order of rows, which a batch does not have"
REFUSED_AGGREGATES: dict[str, str] = dict.fromkeys(
    ("ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"), _ORDERED
)
REFUSED_AGGREGATES["COLLECT"] = "a batch engine has no multisets"
REFUSED_AGGREGATES["PERCENTILE"] = "a batch engine interpolates in another order of operations"
REFUSED_AGGREGATES |= dict.fromkeys(
    (name for name in AGGREGATE_FUNCTIONS if name.startswith("BITMAP_")), BATCH_REASON
)
"""Aggregate functions that have no exact counterpart, each with the reason."""
