"""What single aggregate functions take besides what their signatures say."""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.planner.dialect import nodes


def skips_null_arguments(node: nodes.FunctionCall, span: Span | None) -> bool:
    """Whether IGNORE NULLS makes a difference. UserError SS3461 where the function does not take what is written."""
    written, name = node.args.get("nulls"), str(node.this)
    if written is None:
        return False
    if name == "ARRAY_AGG":
        return bool(written == "IGNORE")
    if name in ("FIRST_VALUE", "LAST_VALUE") and written == "IGNORE":
        # They skip NULLs in any case.
        return False
    hint = "leave it out: of aggregates only ARRAY_AGG has a choice"
    raise UserError("SS3461", f"{name} does not take {written} NULLS", span=span, hint=hint)


def check_percentages(node: nodes.FunctionCall, args: tuple[Expression, ...], span: Span | None) -> None:
    """UserError SS3461 for percentages that are constants outside of 0 to 1, and for DISTINCT with a frequency."""
    if node.this != "PERCENTILE":
        return
    if node.args.get("is_distinct") and len(args) > 2:
        hint = "leave out DISTINCT or the frequency"
        raise UserError("SS3461", "PERCENTILE(DISTINCT …) takes no frequency", span=span, hint=hint)
    for value in _constants(args[1]):
        if not 0 <= value <= 1:
            message = f"PERCENTILE takes percentages from 0 to 1, not {value:g}"
            raise UserError("SS3461", message, span=span, hint="write 0.5 for the median")


def _constants(expression: Expression) -> Iterator[float]:
    if isinstance(expression, Literal) and expression.value is not None:
        yield float(expression.value)
    elif isinstance(expression, Call) and expression.function in ("ARRAY", "CAST", "NEGATE"):
        sign = -1 if expression.function == "NEGATE" else 1
        yield from (sign * value for arg in expression.args for value in _constants(arg))
