"""Which expressions return the same value for the same row, however often they are computed."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.expressions import Call, Expression, walk
from sqlstream.functions import SCALAR_FUNCTIONS


def is_deterministic(*expressions: Expression) -> bool:
    """Whether no call in them returns different values for the same row (RAND, UUID, PROCTIME …)."""
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Call):
                if node.ref is not None and not node.ref.is_deterministic:
                    return False
                function = SCALAR_FUNCTIONS.get(node.function)
                # With arguments UNIX_TIMESTAMP is no clock.
                is_clock = node.function != "UNIX_TIMESTAMP" or not node.args
                if function is not None and not function.is_deterministic and is_clock:
                    return False
    return True


def without_repetitions(expressions: Iterable[Expression]) -> tuple[Expression, ...]:
    """The expressions in order, each once. Two equal ones with RAND() are two draws, and both stay."""
    kept: dict[object, Expression] = {}
    for number, expression in enumerate(expressions):
        kept.setdefault(expression if is_deterministic(expression) else number, expression)
    return tuple(kept.values())
