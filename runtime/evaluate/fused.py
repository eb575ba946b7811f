"""Calls of which one kernel computes two: no text is made whose length alone is wanted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import Call, Literal
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Builder, Datum, Kernel, literal_of
from sqlstream.runtime.kernels.text_scan import char_lengths

LENGTH_REPLACED = "CHAR_LENGTH OF REPLACE"
_LENGTHS = ("CHAR_LENGTH", "CHARACTER_LENGTH")


def fused(call: Call) -> Call:
    """The call that computes this one and its argument, or the same."""
    match call:
        case Call(
            function=length,
            ref=None,
            args=(
                Call(
                    function="REPLACE",
                    ref=None,
                    args=(text, Literal(value=str() as s) as search, Literal(value=str()) as by),
                ),
            ),
        ) if length in _LENGTHS and s:
            return Call(LENGTH_REPLACED, (text, search, by), call.type, call.span)
    return call


def _length_replaced(call: Call, context: EvaluationContext) -> Kernel:
    """The number of characters after a REPLACE: each time that the text is found adds the difference of two lengths."""
    search, replacement = literal_of(call, 1), literal_of(call, 2)
    growth = len(replacement) - len(search)
    if len(search.encode()) == 1:
        return lambda text, *_: char_lengths(text, ord(search), growth)

    def kernel(text: pa.Array, *_: Datum) -> pa.Array:
        found = pc.multiply(pc.count_substring(text, search), pa.scalar(growth, pa.int32()))
        return pc.add(char_lengths(text), found)

    return kernel


FUSED: dict[str, Builder] = {LENGTH_REPLACED: _length_replaced}
"""The builders of calls that only `fused` makes."""
