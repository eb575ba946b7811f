"""The parts of compiled functions: kernels over columns and constants, and the builders that make a call's kernel."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.checks import not_constant
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.kernels.buffers import valid_mask
from sqlstream.types import INT, TypeRoot

Datum = Any
"""A `pa.Array`, or a `pa.Scalar` for an argument that is constant."""

Kernel = Callable[..., Datum]
"""From evaluated arguments, at least one an array, to the result; it is then cast to the call's type."""

Builder = Callable[[Call, EvaluationContext], Kernel]
"""Builds the kernel of one call, once, when the task opens. It computes what the check of the function's signature lets pass; a
constant that the planner could not compute may still be wrong, and is a UserError."""

Values = np.ndarray[Any, Any]


BATCH_BYTES_MAX = 2**31 - 1
"""The greatest total size of the texts of one column of a batch: Arrow's offsets have 32 bits."""


def too_large(what: str) -> UserError:
    """The error for a column that Arrow cannot hold."""
    return UserError(
        "SS5108",
        f"{what} would have more than {BATCH_BYTES_MAX:,} bytes in one batch",
        hint="make the texts shorter, or the batches: SET 'execution.batch-rows' = '1024'",
    )


_WORDS = {32: np.uint32, 64: np.uint64}


def plain(kernel: Kernel) -> Builder:
    """A kernel that is the same for every call."""
    return lambda call, context: kernel


def with_target(kernel: Callable[..., pa.Array]) -> Builder:
    """A builder of `kernel(target, *columns)`, where `target` is the Arrow type of the result."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        target = to_arrow_type(call.type)
        return lambda *args: kernel(target, *as_arrays(*args))

    return build


def rows_of(*args: Datum) -> int:
    return next(len(a) for a in args if isinstance(a, pa.Array))


def as_array(datum: Datum, rows: int) -> pa.Array:
    """A column, whether it is one already or a constant."""
    if isinstance(datum, pa.Array):
        return datum
    if datum.is_valid and (pa.types.is_string(datum.type) or pa.types.is_binary(datum.type)):
        buffer = datum.as_buffer()
        if buffer is not None and buffer.size * rows > BATCH_BYTES_MAX:
            raise too_large("a constant, once for each row,")
    # Arrow cannot repeat a MAP zero times.
    if not datum.is_valid or not rows:
        return pa.nulls(rows, datum.type)
    if pa.types.is_primitive(datum.type) and datum.type.bit_width in _WORDS:
        return _repeated_word(datum, rows)
    return pa.repeat(datum, rows)


def _repeated_word(datum: pa.Scalar, rows: int) -> pa.Array:
    """A constant of 4 or 8 bytes, once for each row: numpy takes an eighth of the time of Arrow."""
    word = np.dtype(_WORDS[datum.type.bit_width])
    value = np.frombuffer(pa.array([datum], datum.type).buffers()[1], word, 1)
    repeated = pa.allocate_buffer(rows * word.itemsize)
    np.frombuffer(repeated, word)[:] = value
    return pa.Array.from_buffers(datum.type, rows, [None, repeated])


def as_arrays(*args: Datum) -> tuple[pa.Array, ...]:
    rows = rows_of(*args)
    return tuple(as_array(a, rows) for a in args)


def null_mask(*arrays: pa.Array) -> Values | None:
    """bool[n], true where any of the arrays is NULL; None when there is no NULL."""
    mask: Values | None = None
    for array in arrays:
        valid = valid_mask(array)
        if valid is not None:
            mask = valid == 0 if mask is None else mask | (valid == 0)
    return mask


def numbers(array: pa.Array, dtype: Any) -> Values:
    """Numbers, dates, times or timestamps as numpy; values under NULLs are arbitrary."""
    array_type = array.type
    if pa.types.is_temporal(array_type):
        array = array.view(pa.int32() if array_type.bit_width == 32 else pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    return array.to_numpy(zero_copy_only=False).astype(dtype, copy=False)


def zero(number_type: pa.DataType) -> pa.Scalar:
    """0 as a constant of any numeric type."""
    return pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(number_type) else 0, number_type)


def literal_of(call: Call, position: int) -> Any:
    """The value of an argument that must be constant; UserError when it is not."""
    arg = call.args[position]
    if not isinstance(arg, Literal):
        raise not_constant(call, position)
    return arg.value


def is_literal(call: Call, *positions: int) -> bool:
    """Whether these arguments (those that the call has) are constants other than NULL."""
    return all(
        isinstance(arg := call.args[p], Literal) and arg.value is not None
        for p in positions
        if p < len(call.args)
    )


_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def with_int_parameters(builder: Builder) -> Builder:
    """`builder` for calls whose lengths, positions and counts are INT; a BIGINT is replaced by the nearest INT.

    No text and no number has more than 2^31 characters or digits, so the result is the same.
    """

    def is_long(argument: Expression, place: int) -> bool:
        return place > 0 and argument.type.root is TypeRoot.BIGINT

    def build(call: Call, context: EvaluationContext) -> Kernel:
        places = [i for i, a in enumerate(call.args) if is_long(a, i)]
        if not places:
            return builder(call, context)
        args = tuple(_as_int(a) if i in places else a for i, a in enumerate(call.args))
        kernel = builder(Call(call.function, args, call.type, call.span), context)
        return lambda *given: kernel(*(_clamped(g) if i in places else g for i, g in enumerate(given)))

    return build


def _as_int(argument: Expression) -> Expression:
    if not isinstance(argument, Literal) or not isinstance(argument.value, int):
        return argument
    return Literal(min(max(argument.value, _INT_MIN), _INT_MAX), INT.with_nullable(argument.type.nullable))


def _clamped(datum: Datum) -> Datum:
    low, high = pa.scalar(_INT_MIN, pa.int64()), pa.scalar(_INT_MAX, pa.int64())
    kept = pc.min_element_wise(pc.max_element_wise(datum, low, skip_nulls=False), high, skip_nulls=False)
    return pc.cast(kept, pa.int32())
