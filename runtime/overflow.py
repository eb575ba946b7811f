"""Whole numbers that leave the range of their type: counted, or an error, as `table.exec.arithmetic-overflow` says.

Results wrap, as in Flink. What computes them tells `overflowed` here, and the task whose thread it is decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from sqlstream.errors import Span, UserError
from sqlstream.types import LogicalType

OVERFLOWS = "numArithmeticOverflows"

OnOverflow = Callable[[int, UserError], None]
"""Called with how many values have left the range, and the error that says so."""

_in_force: ContextVar[OnOverflow] = ContextVar("on_overflow", default=lambda count, error: None)


def overflowed(count: int, what: str, t: LogicalType, span: Span | None = None) -> None:
    """So many results of `what` are beyond their type. Raises UserError SS5109 where that fails the job."""
    name = t.without_time_attribute().with_nullable(True)
    error = UserError("SS5109", f"a result of {what} is beyond {name}", span=span)
    _in_force.get()(count, error)


@contextlib.contextmanager
def on_overflow(call: OnOverflow) -> Iterator[None]:
    """What is computed within, by this thread, tells `call`."""
    token = _in_force.set(call)
    try:
        yield
    finally:
        _in_force.reset(token)


def raises_overflow() -> contextlib.AbstractContextManager[None]:
    """Every overflow within is an error, for the caller to catch."""
    return on_overflow(_raised)


def _raised(count: int, error: UserError) -> None:
    raise error
