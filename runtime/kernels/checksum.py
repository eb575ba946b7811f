"""The CRC-32 of bytes, as `zlib.crc32` computes it, three times as fast where the processor multiplies without carries.

Bytes are folded in blocks of 64: each block is multiplied by what it is worth 64 bytes later, and added to the block that stands
there. What is left is one block that has the checksum of all. Source: V. Gopal et al., Fast CRC Computation for Generic
Polynomials Using PCLMULQDQ Instruction, Intel 2009.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sqlstream.runtime.native.kernel import READ_BYTES, instruction, kernel

_BLOCK = 64
_BYTES_MIN = 1024
_ONES = 0xFFFF_FFFF
"""What zlib's register begins with: a checksum of it begins with 0."""
_LATER = np.array([0x1_5444_2BD4, 0x1_C6E4_1596], dtype=np.uint64)
"""x^(512+32) and x^(512-32) modulo the polynomial, their bits mirrored: what the halves of 128 bits are worth 512 bits later."""

Bytes: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


@instruction("void(int64, int64, int64)")
def _fold_block(ir: Any, builder: Any, block: Any, data: Any, later: Any) -> None:
    """Multiply the 64 bytes at `block`, and add those at `data`: quarter by quarter, and each in two halves."""
    if not builder.module.triple.startswith("x86_64"):
        return  # compiled, and not called
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()
    number, quarter = ir.IntType(64), ir.VectorType(ir.IntType(64), 2)
    product = ir.FunctionType(quarter, [quarter, quarter])
    # LLVM's function for it would need a processor that has it from whoever compiles.
    low, high = (
        ir.InlineAsm(product, f"vpclmulqdq $${halves}, $2, $1, $0", "=x,x,x") for halves in ("0x00", "0x11")
    )

    def pointer(address: Any, offset: int) -> Any:
        return builder.inttoptr(builder.add(address, ir.Constant(number, offset)), quarter.as_pointer())

    factors = builder.load(pointer(later, 0), align=1, typ=quarter)
    for offset in range(0, _BLOCK, 16):
        bits = builder.load(pointer(block, offset), align=1, typ=quarter)
        added = builder.load(pointer(data, offset), align=1, typ=quarter)
        folded = builder.xor(builder.call(low, [bits, factors]), builder.call(high, [bits, factors]))
        builder.store(builder.xor(folded, added), pointer(block, offset), align=1)


@kernel(f"void({READ_BYTES}, int64, uint8[::1], uint64[::1])")
def _fold(data, blocks, block, later):  # type: ignore[no-untyped-def]
    """Fold the first blocks of `data` into `block`, which stands before them."""
    at = data.ctypes.data
    for n in range(blocks):
        _fold_block(block.ctypes.data, at + n * _BLOCK, later.ctypes.data)


def crc32(data: Bytes, checksum: int = 0) -> int:
    """The checksum of bytes that follow those of `checksum`."""
    if len(data) < _BYTES_MIN or not _multiplies_without_carries():
        return zlib.crc32(data, checksum)
    values: np.ndarray[Any, Any] = np.frombuffer(data, dtype=np.uint8)
    blocks = len(values) // _BLOCK
    block = values[:_BLOCK].copy()
    block[:4] ^= np.frombuffer((checksum ^ _ONES).to_bytes(4, "little"), dtype=np.uint8)
    _fold(values[_BLOCK:], blocks - 1, block, _LATER)
    return zlib.crc32(values[blocks * _BLOCK :].data, zlib.crc32(block.data, _ONES))


@functools.cache
def _multiplies_without_carries() -> bool:
    import llvmlite.binding as llvm

    return llvm.get_process_triple().startswith("x86_64-") and all(
        llvm.get_host_cpu_features().get(feature, False) for feature in ("pclmul", "avx")
    )
