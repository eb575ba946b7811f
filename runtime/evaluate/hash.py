"""Hash functions."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.hash import SHA2_BITS, SHA2_HINT
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Kernel,
    as_array,
    is_literal,
    literal_of,
    null_mask,
    plain,
    rows_of,
)
from sqlstream.runtime.evaluate.string import in_duckdb
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets


@functools.cache
def _words(bits: int) -> tuple[Any, Any]:
    """The words at the start, and the constants."""
    from sqlstream.runtime.kernels.sha2 import root_fractions

    if bits in (384, 512):
        return root_fractions(8 if bits == 384 else 0, 8, 64), root_fractions(0, 80, 64, is_cube=True)
    # Those of SHA-224 are the lower halves of SHA-384's.
    first = root_fractions(0, 8, 32) if bits == 256 else root_fractions(8, 8, 64) & np.uint64(0xFFFFFFFF)
    return first, root_fractions(0, 64, 32, is_cube=True)


def sha2(text: Any, bits: int) -> pa.Array:
    """The digests as hexadecimal digits."""
    from sqlstream.runtime.kernels.sha2 import sha2_32_into, sha2_64_into

    column = as_array(text, rows_of(text))
    rows, size = len(column), bits // 8
    offsets, _ = view_offsets(column)
    data = view_buffer(column.buffers()[2], np.uint8, 0, int(offsets[rows]))
    first, constants = _words(bits)
    digests = np.empty(rows * size, dtype=np.uint8)
    hash_into = sha2_64_into if bits > 256 else sha2_32_into
    hash_into(
        digests, size, data, offsets[: rows + 1], first, constants, np.empty(len(constants) + 8, np.uint64)
    )
    digits = np.frombuffer(digests.tobytes().hex().encode(), dtype=np.uint8)
    ends = np.arange(0, 2 * size * rows + 1, 2 * size, dtype=np.int32) if rows else np.zeros(1, np.int32)
    nulls = null_mask(column)
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(digits), valid)


def _of_bits(bits: int) -> Builder:
    return plain(lambda text: sha2(text, bits))


def _sha2(call: Call, context: EvaluationContext) -> Kernel:
    """SHA2(string, bits)."""

    def made(bits: int) -> Kernel:
        if bits not in SHA2_BITS:
            raise UserError("SS5102", f"SHA2 has no hash of {bits} bits", hint=SHA2_HINT)
        return lambda text, *_: sha2(text, bits)

    return made(literal_of(call, 1)) if is_literal(call, 1) else by_parameter(made, pa.string())


BUILDERS: dict[str, Builder] = {
    "MD5": in_duckdb("md5(a0)"),
    "SHA1": in_duckdb("sha1(a0)"),
    "SHA224": _of_bits(224),
    "SHA256": in_duckdb("sha256(a0)"),
    "SHA384": _of_bits(384),
    "SHA512": _of_bits(512),
    "SHA2": _sha2,
}
