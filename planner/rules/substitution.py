"""Which expressions may be computed over another input without being computed twice."""

from __future__ import annotations

from sqlstream.expressions import Expression, InputRef, Literal, walk


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
