"""Timestamps cut off to a number of digits of the second, in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound


def cut_off(value: exp.Expr, precision: int) -> exp.Expr:
    """A timestamp truncated to `precision` digits, towards the past."""
    if precision >= 6:
        return value
    step = tree.number(10 ** (6 - precision))

    def truncated(micros: exp.Expr) -> exp.Expr:
        rest = tree.operate(exp.Mod, tree.operate(exp.Add, tree.operate(exp.Mod, micros, step), step), step)
        return tree.call("make_timestamp", tree.operate(exp.Sub, micros, rest))

    return bound(tree.call("epoch_us", value), truncated)
