"""Whole numbers that keep their low bits, as Java's narrowing conversions do."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.types import BIGINT, plain
from sqlstream.types import TypeRoot

BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_DTYPES = {
    TypeRoot.TINYINT: exp.DType.TINYINT,
    TypeRoot.SMALLINT: exp.DType.SMALLINT,
    TypeRoot.INTEGER: exp.DType.INT,
}


def wrapped(value: exp.Expr, target: TypeRoot) -> exp.Expr:
    """The low bits of a BIGINT as a narrower number with its sign."""
    half = 1 << (BITS[target] - 1)
    low = tree.call("xor", _masked(value, 2 * half - 1), tree.cast(tree.number(half), BIGINT))
    return tree.cast(tree.operate(exp.Sub, low, tree.number(half)), plain(_DTYPES[target]))


def _masked(value: exp.Expr, mask: int) -> exp.Expr:
    return tree.operate(exp.BitwiseAnd, tree.cast(value, BIGINT), tree.cast(tree.number(mask), BIGINT))
