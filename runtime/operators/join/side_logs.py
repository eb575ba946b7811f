"""The declared state of joins by time: one log of rows for each input."""

from __future__ import annotations

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.logs.row_log import RowLog, Spread

_SIDES = ("left", "right")


def declare_sides(
    context: OperatorContext, keys: tuple[tuple[int, ...], tuple[int, ...]], broadcast_input: int
) -> tuple[RowLog, RowLog]:
    """The logs "left" and "right". All subtasks get the rows of `broadcast_input` (-1: none), and then any rows of the other."""
    left, right = (
        RowLog(
            _SIDES[side],
            to_arrow_schema(schema),
            context.state.scope,
            keys[side],
            _spread(side, broadcast_input),
        )
        for side, schema in enumerate(context.input_schemas)
    )
    return context.state.add(left), context.state.add(right)


def _spread(side: int, broadcast_input: int) -> Spread:
    if broadcast_input < 0:
        return Spread.BY_KEY
    return Spread.EVERYWHERE if side == broadcast_input else Spread.ANYWHERE
