"""Refuses calls that no row could make work, by their signatures."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.checks import is_constant
from sqlstream.planner.rules.constant_folding import fold


def checked(call: Call, span: Span | None = None) -> Call:
    """The call of a built-in function. UserError at `span`, or else at the place of the call, when its signature refuses it."""
    check = SCALAR_FUNCTIONS[call.function].check
    if check is not None:
        try:
            check(call.with_args(tuple(_computed(a) for a in call.args)))
        except UserError as error:
            raise error.at(span or call.span) from error.__cause__
    return call


def _computed(argument: Expression) -> Expression:
    is_open = not isinstance(argument, Literal) and is_constant(argument)
    return fold(argument) if is_open else argument
