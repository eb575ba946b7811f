"""Refusal of statements that are nested more deeply than Python's limit on nested calls allows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sqlstream.errors import UserError

Given = ParamSpec("Given")
Result = TypeVar("Result")


def refuse_depth(stage: Callable[Given, Result]) -> Callable[Given, Result]:
    """`stage`, raising UserError SS3019 instead of Python's RecursionError."""

    @functools.wraps(stage)
    def bounded(*args: Given.args, **named: Given.kwargs) -> Result:
        try:
            return stage(*args, **named)
        except RecursionError:
            raise UserError(
                "SS3019",
                "the statement is nested too deeply",
                hint="write it with fewer levels of subqueries, views or expressions",
            ) from None

    return bounded
