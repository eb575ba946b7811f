"""Lowered calls that are written as text with places for the arguments: shorter than trees where lambdas nest."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.lower import tree


def filled(template: str, args: list[exp.Expr], sqlglot_name: str) -> exp.Expr:
    """`template` with the texts of `args` for {0}, {1}, …: code of ours, in which each argument stands in parentheses or
    between commas. Arguments have no free variables, so no lambda of the template captures one.

    >>> filled("len({0})", [tree.column("c0", "i")], "duckdb").sql()
    'len(i.c0)'
    """
    return tree.raw(template.format(*(tree.rendered(arg, sqlglot_name).name for arg in args)))
