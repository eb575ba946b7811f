"""What the decorators of kernels leave of the Python functions below them, for the compiler and for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Inlined:
    """A function that kernels call; it is compiled as part of each. `is_forced`: LLVM does not weigh what that costs."""

    def __init__(self, function: Callable[..., Any], is_forced: bool) -> None:
        self.function = function
        self.module = function.__module__
        self.is_forced = is_forced


class Instruction:
    """A function that kernels call; `generate(ir, builder, *arguments)` adds its LLVM instructions and
    returns its value; `ir` is `llvmlite.ir`."""

    def __init__(self, generate: Callable[..., Any], signature: str) -> None:
        self.generate = generate
        self.module = generate.__module__
        self.name = generate.__name__
        self.signature = signature


_DEFINITIONS: dict[Any, Inlined] = {}
"""The Python function of each kernel that is loaded, for kernels that call it and for tests."""


def define(kernel: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Remember the Python function that a kernel was compiled from."""
    _DEFINITIONS[kernel] = Inlined(function, is_forced=False)


def definition_of(value: Any) -> Inlined | None:
    """The Python function that a kernel was compiled from; None for what is no kernel."""
    try:
        return _DEFINITIONS.get(value)
    except TypeError:
        # Unhashable, such as an array of constants.
        return None
