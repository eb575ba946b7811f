"""Kernels to object code, with numba: the only file that imports it, and only where the cache has nothing."""

# numba is untyped.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, attr-defined, name-defined, misc"

from __future__ import annotations

import inspect
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import dispatcher, sigutils
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from sqlstream.errors import InternalError
from sqlstream.runtime.native import loader
from sqlstream.runtime.native.definition import Inlined, Instruction, definition_of
from sqlstream.runtime.native.entry import Overload, build_entry

_OPTIONS = {"nogil": True, "_nrt": False}
"""Without numba's runtime (`_nrt`) no references to arrays are counted: the caller of a kernel keeps them."""

_OUTSIDE_PREFIXES = ("Py", "_Py", "llvm.", "mem")
"""Functions that object code may call: CPython's, and those of the C library for blocks of memory."""


@global_compiler_lock
def compile_kernel(function: Callable[..., Any], signatures: Sequence[str], symbol: str) -> bytes:
    """Object code (ELF or Mach-O) with the entry `symbol` of a kernel and all that it calls.

    InternalError when the kernel needs what only numba's own runtime has, such as arrays that it makes.
    """
    loader.LINKER.start()
    context = cpu_target.target_context
    compiler = _KernelCompiler(_for_numba(function), cpu_target, {"nopython": True, **_OPTIONS}, {}, Compiler)
    compiled = []
    for signature in signatures:
        arguments, result = sigutils.normalize_signature(signature)
        compiled.append(compiler.compile(arguments, result))
    library = context.codegen().create_library(symbol)
    library.enable_object_caching()
    module = library.create_ir_module(symbol)
    build_entry(module, symbol, function.__name__, [Overload(result) for result in compiled])
    library.add_ir_module(module)
    for result in compiled:
        library.add_linking_library(result.library)
    library.finalize()
    _check_calls(function, library._final_module)
    code: bytes = library._get_compiled_object()
    return code


class _KernelCompiler(dispatcher._FunctionCompiler):
    """numba's compiler without the wrappers that numba's own callers need."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = True
        flags.no_cfunc_wrapper = True
        return flags


def _for_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with what numba compiles in place of the kernels, `inlined` functions and instructions it names."""
    names = {*function.__code__.co_names}
    replaced = {
        name: _callee(value, name, function) for name, value in function.__globals__.items() if name in names
    }
    copy = python_types.FunctionType(
        function.__code__, {**function.__globals__, **replaced}, function.__name__, function.__defaults__
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


_CALLEES: dict[Any, Any] = {}


def _callee(value: Any, name: str, caller: Callable[..., Any]) -> Any:
    """What stands for a global of a kernel."""
    definition = value if isinstance(value, Inlined | Instruction) else definition_of(value)
    if definition is None:
        return value
    _check_origin(definition, name, caller)
    if definition not in _CALLEES:
        if isinstance(definition, Instruction):
            _CALLEES[definition] = _intrinsic(definition)
        else:
            options = (
                {"forceinline": True} if isinstance(definition, Inlined) and definition.is_forced else {}
            )
            _CALLEES[definition] = njit(**_OPTIONS, **options)(_for_numba(definition.function))
    return _CALLEES[definition]


def _check_origin(definition: Any, name: str, caller: Callable[..., Any]) -> None:
    # What a kernel is made of must be part of its digest (see sqlstream.runtime.native.cache).
    if definition.module not in (caller.__module__, "sqlstream.runtime.kernels.intrinsics"):
        raise InternalError(
            f'"{caller.__name__}" of {caller.__module__} calls "{name}" of {definition.module}: kernels call functions of '
            "their own file and of sqlstream.runtime.kernels.intrinsics"
        )


def _intrinsic(instruction: Instruction) -> Any:
    arguments, result = sigutils.normalize_signature(instruction.signature)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        value = instruction.generate(ir, builder, *values)
        return context.get_dummy_value() if value is None else value

    def define(*typing_context_and_arguments: Any) -> Any:
        return result(*arguments), generate

    # numba looks at the names of the parameters: the instruction's own but for (ir, builder).
    names = ["typing_context", *list(inspect.signature(instruction.generate).parameters)[2:]]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    define.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    define.__name__ = instruction.name
    return intrinsic(define)


def _check_calls(function: Callable[..., Any], module: Any) -> None:
    unknown = sorted(
        f.name for f in module.functions if f.is_declaration and not f.name.startswith(_OUTSIDE_PREFIXES)
    )
    if unknown:
        raise InternalError(
            f'kernel "{function.__name__}" calls {", ".join(unknown)} of numba: give it the arrays that it makes as arguments'
        )
