"""Build typed calls from the function registry and evaluate them over literal rows.

    assert evaluate(call("+", col(0, INT), col(1, BIGINT)), [(1, 2), (None, 3)]) == [3, None]

Every evaluation also runs over the same rows as a slice of a larger batch and over no rows at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from operator_harness import column_of, values_of

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call, Expression, InputRef, Literal, walk
from sqlstream.functions import SCALAR_FUNCTIONS, ScalarFunction
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.schema import Schema
from sqlstream.types import INT, SYMBOL, LogicalType, is_string


def col(index: int, type_: LogicalType) -> InputRef:
    return InputRef(index, type_)


def lit(value: Any, type_: LogicalType) -> Literal:
    return Literal(value, type_)


def symbol(name: str) -> Literal:
    return Literal(name, SYMBOL)


def cast(value: Expression, type_: LogicalType, *, is_try: bool = False) -> Call:
    return Call("TRY_CAST" if is_try else "CAST", (value,), type_)


def call(name: str, *args: Expression) -> Call:
    """The call as the binder would make it, arguments coerced; AssertionError when they do not fit, UserError when the
    check of the signature refuses them."""
    function = SCALAR_FUNCTIONS[name]
    assert function.args_min <= len(args) <= function.args_max
    types = function.coerce(tuple(a.type for a in args))
    assert types is not None, f"{name} does not take {[str(a.type) for a in args]}"
    coerced = tuple(
        a if a.type.same_as(t) else _converted(a, t, function) for a, t in zip(args, types, strict=True)
    )
    result = function.type_of(coerced)
    assert result is not None, f"{name} does not take {[str(t) for t in types]}"
    made = Call(name, coerced, result)
    if function.check is not None:
        function.check(made)
    return made


def _converted(value: Expression, type_: LogicalType, function: ScalarFunction) -> Call:
    is_try = function.tries_text and is_string(value.type) and not is_string(type_)
    return cast(value, type_.with_nullable(True) if is_try else type_, is_try=is_try)


def accepts(name: str, *types: LogicalType) -> bool:
    """Whether a call with arguments of these types type-checks."""
    function = SCALAR_FUNCTIONS[name]
    coerced = function.coerce(types)
    return coerced is not None and function.result_type(coerced) is not None


def evaluate(
    expression: Expression, rows: Sequence[tuple[Any, ...]], context: EvaluationContext | None = None
) -> list[Any]:
    """One plain value per row; timestamps and dates as ints in their own unit."""
    inputs = {n.index: n.type for n in walk(expression) if isinstance(n, InputRef)}
    width = max(inputs, default=-1) + 1
    types = [inputs.get(i, INT) for i in range(width)]
    schema = Schema.of(*((f"c{i}", t) for i, t in enumerate(types)))
    arrow = [to_arrow_type(t) for t in types]
    function = compile_expression(expression, schema, context)
    batch = _batch(rows, arrow)
    result = function(batch)
    assert result.type == to_arrow_type(expression.type), f"{result.type} is not {expression.type}"
    assert len(function(batch.slice(0, 0))) == 0
    padded = _batch([*rows[-1:], *rows[-1:], *rows, *rows[:1]], arrow).slice(2, len(rows))
    assert values_of(function(padded)) == values_of(result) or _has_nan(result)
    return values_of(result)


def _has_nan(array: pa.Array) -> bool:
    return any(v != v for v in array.to_pylist())


def _batch(rows: Sequence[tuple[Any, ...]], types: list[pa.DataType]) -> pa.RecordBatch:
    if not types:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    arrays = [column_of(values, t) for values, t in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(types))])


def one(name: str, types: Sequence[LogicalType], values: Sequence[Any]) -> Any:
    """The function's value for one row of column arguments."""
    arguments = [col(i, t) for i, t in enumerate(types)]
    return evaluate(call(name, *arguments), [tuple(values)])[0]
