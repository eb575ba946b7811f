"""Arguments that an engine's functions take as constants only."""

from __future__ import annotations

from sqlstream.expressions import Call, Literal, LiteralValue
from sqlstream.planner.lower.refusals import refuse


def constant(call: Call, position: int, engine: str) -> LiteralValue:
    """The value of a constant argument. UserError SS3301 when it is none, or NULL."""
    found = call.args[position]
    if not isinstance(found, Literal) or found.value is None:
        raise refuse(engine, f"{call.function} with argument {position + 1} that is no constant")
    return found.value


def constant_number(call: Call, position: int, engine: str) -> int:
    value = constant(call, position, engine)
    assert isinstance(value, int)
    return value


def constant_text(call: Call, position: int, engine: str) -> str:
    return str(constant(call, position, engine))


def unit_word(call: Call, position: int, engine: str) -> str:
    """A symbol: a unit of time, or BOTH, LEADING and TRAILING."""
    return constant_text(call, position, engine).upper()
