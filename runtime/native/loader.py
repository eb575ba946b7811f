"""Object code to functions that Python calls, with LLVM's linker in memory."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

_FASTCALL = 0x80
"""CPython's METH_FASTCALL."""


NONE, TYPE_ERROR, ARITHMETIC_ERROR = "sqlstream_none", "sqlstream_type_error", "sqlstream_arithmetic_error"
_OBJECTS = {NONE: None, TYPE_ERROR: TypeError, ARITHMETIC_ERROR: ArithmeticError}
"""Objects that live as long as the interpreter, and the symbols by which entries know them."""


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef, which must outlive its function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Linker:
    """Links object code for as long as the process lives. Thread-safe. State: the code, and the functions made of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: Any = None
        self._definitions: list[_MethodDef] = []

    def start(self) -> None:
        """Make this process ready for object code, also for what numba links before `load` does."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        import llvmlite.binding as llvm

        if self._engine is not None:
            return
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for symbol, value in _OBJECTS.items():
            llvm.add_symbol(symbol, id(value))
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

    def load(self, objects: dict[str, bytes]) -> dict[str, int]:
        """The addresses of the entries that pieces of object code define."""
        import llvmlite.binding as llvm

        with self._lock:
            self._start()
            for code in objects.values():
                self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            return {symbol: self._engine.get_function_address(symbol) for symbol in objects}

    def function(self, name: str, address: int, doc: str | None) -> Callable[..., Any]:
        """The Python function of an entry."""
        import numpy as np

        definition = _MethodDef(name.encode(), address, _FASTCALL, doc.encode() if doc else None)
        self._definitions.append(definition)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object)
        # Entries compare the type of their arguments with numpy's, which is their `self`.
        made: Callable[..., Any] = make(ctypes.byref(definition), np.ndarray, name)
        return made


LINKER = _Linker()


def host() -> str:
    """The processor that this process runs on, with all its features."""
    import llvmlite.binding as llvm

    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


SHIPPED_PROCESSOR = "x86-64-v3"
"""The processor that shipped code is made for, by LLVM's name: Intel's since 2013, AMD's since 2015."""

_SHIPPED_FEATURES = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave")


@functools.cache
def runs_shipped_code() -> bool:
    """Whether this process can run code for SHIPPED_PROCESSOR: its instructions, and objects laid out as entries read them."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    has_known_objects = sys.implementation.name == "cpython" and "t" not in sys.abiflags
    if not (triple.startswith("x86_64-") and "linux" in triple and has_known_objects):
        return False
    features = llvm.get_host_cpu_features()
    return all(features.get(feature, False) for feature in _SHIPPED_FEATURES)
