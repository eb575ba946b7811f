"""How a scalar function is lowered: from the resolved call and the trees of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.planner.lower import constants, tree
from sqlstream.planner.lower.duckdb.refusals import ENGINE

Handler = Callable[[Call, list[exp.Expr], str], exp.Expr]
"""The call, the trees of its arguments, and the session's time zone."""

constant = functools.partial(constants.constant, engine=ENGINE)
constant_number = functools.partial(constants.constant_number, engine=ENGINE)
constant_text = functools.partial(constants.constant_text, engine=ENGINE)
unit_word = functools.partial(constants.unit_word, engine=ENGINE)


def of_arguments(make: Callable[..., exp.Expr]) -> Handler:
    """A handler that looks at the arguments' trees only."""
    return lambda call, args, time_zone: make(*args)


def named(function: str) -> Handler:
    """DuckDB's function of this name with the same arguments."""
    return of_arguments(lambda *args: tree.call(function, *args))
