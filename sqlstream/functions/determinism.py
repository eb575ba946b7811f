"""Which expressions return the same value for the same row, however often they are computed."""

from __future__ import annotations

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
                if function is not None and not function.is_deterministic:
                    return False
    return True
