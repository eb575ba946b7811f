"""Expressions as values: what they are equal to, and what crosses the wire."""

from __future__ import annotations

import msgspec

from sqlstream.errors import Span
from sqlstream.expressions import Call, Expression, InputRef, transform
from sqlstream.types import BIGINT


def _negated(span: Span | None) -> Call:
    return Call("NEGATE", (InputRef(0, BIGINT),), BIGINT, span)


def test_calls_are_equal_wherever_they_stand() -> None:
    first, second = _negated(Span(1, 3)), _negated(None)
    assert first == second
    assert hash(first) == hash(second)
    assert Call("+", (first, first), BIGINT) == Call("+", (first, second), BIGINT)
    assert first != Call("NEGATE", (InputRef(1, BIGINT),), BIGINT, Span(1, 3))


def test_a_call_keeps_its_position_on_the_wire() -> None:
    sent = msgspec.msgpack.encode(_negated(Span(1, 3)))
    received = msgspec.msgpack.decode(sent, type=Expression)
    assert isinstance(received, Call)
    assert received.span == Span(1, 3)


def test_a_rebuilt_call_keeps_its_position() -> None:
    moved = transform(
        _negated(Span(1, 3)), lambda node: InputRef(5, node.type) if isinstance(node, InputRef) else node
    )
    assert isinstance(moved, Call)
    assert moved.span == Span(1, 3)
