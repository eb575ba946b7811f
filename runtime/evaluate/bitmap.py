"""Functions of bitmaps: sets of 32-bit numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.bitmap_columns import Bitmaps, cardinalities, no_bitmap
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Builder, Datum, Kernel, as_array, as_arrays, numbers, rows_of
from sqlstream.runtime.evaluate.lists import Lists
from sqlstream.runtime.kernels.bitmaps import AND, ANDNOT, OR, XOR


def _combined(operation: int) -> Builder:
    def kernel(left: Datum, right: Datum) -> pa.Array:
        a, b = (Bitmaps.of(column) for column in as_arrays(left, right))
        return a.combined(operation, b).column()

    return lambda call, context: kernel


def _build(call: Call, context: EvaluationContext) -> Kernel:
    """The set of an array's elements that are not NULL."""

    def kernel(array: Datum) -> pa.Array:
        lists = Lists.of(as_array(array, rows_of(array)))
        elements, owners = lists.elements(), lists.owners()
        if elements.null_count:
            known = elements.is_valid().to_numpy(zero_copy_only=False)
            elements, owners = elements.drop_null(), owners[known]
        return Bitmaps.of_elements(owners, numbers(elements, np.int32), lists.rows, lists.nulls).column()

    return kernel


def _from_bytes(data: Datum) -> pa.Array:
    """Bytes of other writers may have runs: they are written anew, so that equal sets have equal bytes."""
    if pc.any(pc.equal(pc.binary_length(data), 0)).as_py():
        raise no_bitmap()
    return Bitmaps.of(data).column()


def _to_array(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    return lambda bitmap: Bitmaps.of(bitmap).arrays(target)


BUILDERS: dict[str, Builder] = {
    "BITMAP_AND": _combined(AND),
    "BITMAP_ANDNOT": _combined(ANDNOT),
    "BITMAP_OR": _combined(OR),
    "BITMAP_XOR": _combined(XOR),
    "BITMAP_BUILD": _build,
    "BITMAP_CARDINALITY": lambda call, context: cardinalities,
    "BITMAP_FROM_BYTES": lambda call, context: _from_bytes,
    "BITMAP_TO_ARRAY": _to_array,
    "BITMAP_TO_BYTES": lambda call, context: lambda bitmap: bitmap,
    "BITMAP_TO_STRING": lambda call, context: lambda bitmap: Bitmaps.of(bitmap).texts(),
}
