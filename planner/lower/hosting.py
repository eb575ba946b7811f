"""Calls that a batch engine cannot answer exactly, and has the stream's own functions compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.correlation import OUTER
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.types import INT, LogicalType


@dataclasses.dataclass(frozen=True)
class Hosted:
    """The name of a hosted function, and the expressions that the engine computes for it."""

    name: str
    arguments: tuple[Expression, ...]


class HostedFunctions:
    """The hosted functions of one query. State: these, in the order in which they were met; equal calls are one."""

    def __init__(self) -> None:
        self._named: dict[tuple[Call, tuple[LogicalType, ...]], HostedFunction] = {}

    @property
    def found(self) -> tuple[HostedFunction, ...]:
        return tuple(self._named.values())

    def host(self, call: Call, has_type: Callable[[LogicalType], bool]) -> Hosted | None:
        """The call as a hosted function of those of its parts whose types the engine has; None for one that may be computed
        several times with other results, or whose result the engine cannot hold."""
        if not is_deterministic(call) or not has_type(call.type):
            return None
        arguments: dict[Expression, InputRef] = {}

        def hosted(expression: Expression) -> Expression:
            if isinstance(expression, Literal):
                return expression
            is_own = isinstance(expression, Call) and expression.function != OUTER
            if expression is call or (is_own and not has_type(expression.type)):
                assert isinstance(expression, Call)
                return expression.with_args(tuple(hosted(arg) for arg in expression.args))
            return arguments.setdefault(expression, InputRef(len(arguments), expression.type))

        made = hosted(call)
        assert isinstance(made, Call)
        # An engine asks for as many results as its arguments have rows.
        given = tuple(arguments) or (Literal(0, INT.not_null()),)
        types = tuple(argument.type for argument in given)
        found = self._named.setdefault((made, types), HostedFunction(f"ours{len(self._named)}", made, types))
        return Hosted(found.name, given)
