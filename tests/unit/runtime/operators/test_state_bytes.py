"""What operators say of the size of their state, held to the memory that can be reached from them."""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import Collected, ManualClock, feed
from stateful_operators import OPERATORS

from sqlstream.elements import Watermark
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.schema import Schema

COUNT = 3_000
TEXT = 200


def rows(context: OperatorContext, side: int) -> list[tuple[Any, ...]]:
    plain = [(n, f"{n:0{TEXT}}", 100, 1_000) for n in range(COUNT)]
    return plain if context.input_modes[side].is_insert_only else [("+I", *row) for row in plain]


@pytest.mark.parametrize("name", OPERATORS)
def test_the_size_of_state_is_the_memory_that_it_holds(name: str) -> None:
    spec, context = OPERATORS[name]
    context.now_ms = ManualClock(5)
    operator = make_operator(spec, context)
    assert operator.context.state.nbytes() <= held_bytes(operator)
    items = [(side, rows(context, side)) for side in range(len(context.input_schemas))]
    feed(operator, [(0, Watermark(0)), *items], Collected())
    size = operator.context.state.nbytes()
    assert 0.9 * held_bytes(operator) <= size <= 1.1 * held_bytes(operator)
    # Keys at least, and texts where they are kept.
    has_texts = name not in ("count", "average", "variance", "with a time to live")
    assert size >= COUNT * (8 + TEXT * has_texts) * len(items)


@pytest.mark.parametrize("name", OPERATORS)
def test_state_goes_with_its_operator_without_a_garbage_collection(name: str) -> None:
    spec, context = OPERATORS[name]
    operator = make_operator(spec, dataclasses.replace(context))
    items = [(side, rows(context, side)) for side in range(len(context.input_schemas))]
    feed(operator, [(0, Watermark(0)), *items], Collected())
    held = [weakref.ref(operator), *(weakref.ref(table) for table in operator.context.state.tables)]
    gc.disable()
    try:
        del operator
        assert [reference() for reference in held] == [None] * len(held)
    finally:
        gc.enable()


def held_bytes(operator: Operator[Any]) -> int:
    """The memory of all arrays, of numpy and Arrow, that can be reached from an operator: each buffer once."""
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    waiting: list[Any] = [vars(operator)]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, _PASSED_BY):
            continue
        seen.add(id(found))
        if isinstance(found, np.ndarray):
            _add(sizes, found.__array_interface__["data"][0], found.nbytes)
            waiting.append(found.base)
        elif isinstance(found, pa.Array | pa.RecordBatch):
            for column in [found] if isinstance(found, pa.Array) else found.columns:
                for buffer in column.buffers():
                    if buffer is not None:
                        _add(sizes, buffer.address, buffer.size)
        else:
            waiting += gc.get_referents(found)
    return sum(sizes.values())


_PASSED_BY = (types.ModuleType, types.FunctionType, type, OperatorContext, Schema, str, int)


def _add(sizes: dict[int, int], address: int, size: int) -> None:
    sizes[address] = max(sizes.get(address, 0), size)
