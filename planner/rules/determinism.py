"""Which expressions may be moved, merged or evaluated twice without a change of the result."""

from __future__ import annotations

from sqlstream.expressions import Call, Expression, InputRef, Literal, walk


def is_deterministic(*expressions: Expression) -> bool:
    """Whether no call in them gives different values for the same row (RAND, UUID, PROCTIME …)."""
    from sqlstream.functions import SCALAR_FUNCTIONS

    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Call):
                function = SCALAR_FUNCTIONS.get(node.function)
                if function is not None and not function.is_deterministic:
                    return False
    return True


def can_substitute(expressions: tuple[Expression, ...], projections: tuple[Expression, ...]) -> bool:
    """Whether `expressions` may be computed directly over the input of `projections`.

    A computed column that is read more than once would be computed more than once, so only references,
    literals and columns read once are substituted.
    """
    uses: dict[int, int] = {}
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, InputRef):
                uses[node.index] = uses.get(node.index, 0) + 1
    computed = [i for i in uses if not isinstance(projections[i], InputRef | Literal)]
    return all(uses[i] == 1 for i in computed)
