"""The decorators that make kernels: loops over arrays, written in Python, that run as machine code.

`@kernel(signature)` replaces a function by its machine code. Where neither sqlstream nor the cache has it, numba compiles it
into the cache when the kernel is first called. A process that has all that it calls never imports numba. `@inlined` marks a
function that kernels call, `@instruction(signature)` one whose code is given as LLVM instructions. docs/adding/kernel.md tells
how to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlstream.runtime.native import cache
from sqlstream.runtime.native.definition import Inlined, Instruction, define

READ_BYTES = "Array(uint8, 1, 'C', True)"
"""In a signature: bytes that the kernel only reads, and that may be read-only."""


def kernel(*signatures: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile the function below for these numba signatures, in their order of preference.

    Arguments are C-contiguous arrays of 8-bit, 32-bit and 64-bit numbers, int64, uint64 and booleans; results are nothing, one
    of these scalars or a tuple of int64. A kernel makes no arrays and runs without the interpreter's lock. It raises TypeError
    for arrays that no signature fits and ArithmeticError for a division by zero.
    """

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        loaded = cache.kernels_of(function.__module__).load(function, signatures)
        define(loaded, function)
        return loaded

    return compiled


def inlined(function: Callable[..., Any]) -> Any:
    """Let kernels of this file call a function."""
    return Inlined(function, is_forced=False)


def always_inlined(function: Callable[..., Any]) -> Any:
    """As `inlined`, in every place where it is called, however large it is."""
    return Inlined(function, is_forced=True)


def instruction(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Let kernels of this file call an instruction of LLVM that Python has no operator for."""
    return lambda generate: Instruction(generate, signature)
