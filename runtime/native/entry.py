"""The entry of a kernel: the function that Python calls, which unpacks the arguments, leaves the interpreter, runs the
kernel and packs its result.

An entry has CPython's `METH_FASTCALL` signature `(self, arguments, count)`. `self` is numpy's array type. Arrays are read
through numpy's public struct `PyArrayObject`; their type, number of dimensions and layout are checked. Whether an array may be
written to is not: views of Arrow's buffers may not, and a signature does not say which of its arrays a kernel writes to. Of
several signatures the first that fits the arrays runs.
"""

# numba is untyped.
# mypy: disable-error-code="no-untyped-call, attr-defined"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.np.arrayobj import populate_array

from sqlstream.errors import InternalError
from sqlstream.runtime.native import loader

_BIT, _BYTE, _INT, _WORD = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_OBJECT = _BYTE.as_pointer()

# Where the fields of PyObject, PyArrayObject and PyArray_Descr stand, in bytes (numpy 2, interpreter with a global lock).
_TYPE = 8
_DATA, _DIMENSIONS, _SHAPE, _STRIDES, _DESCRIPTION, _FLAGS = 16, 24, 32, 40, 56, 64
_BYTE_ORDER, _TYPE_NUMBER = 26, 28
_C_CONTIGUOUS = 0x1

_TYPE_NUMBERS: dict[Any, tuple[int, ...]] = {
    types.boolean: (0,),
    types.int8: (1,),
    types.uint8: (2,),
    types.int32: (5,),
    types.uint32: (6,),
    types.int64: (7, 9),
    types.uint64: (8, 10),
    types.float64: (12,),
}
"""numpy's numbers of element types; `long` and `long long` are both 64 bits wide."""


class Overload:
    """One signature of a kernel and the symbol of the code that numba made for it."""

    def __init__(self, compiled: Any) -> None:
        self.arguments: tuple[Any, ...] = tuple(compiled.signature.args)
        self.result = compiled.signature.return_type
        self.symbol: str = compiled.fndesc.llvm_func_name
        self.context = compiled.target_context


class _Python:
    """The functions of CPython's interface that entries call, declared in a module when they are first used."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module

    def function(self, name: str, result: ir.Type, *arguments: ir.Type) -> Any:
        found = self._module.globals.get(name)
        return found or ir.Function(self._module, ir.FunctionType(result, arguments), name)

    def object(self, symbol: str) -> Any:
        """One of the objects that the loader gives to entries."""
        found = self._module.globals.get(symbol)
        return (found or ir.GlobalVariable(self._module, _BYTE, symbol)).bitcast(_OBJECT)


def build_entry(module: ir.Module, symbol: str, name: str, overloads: Sequence[Overload]) -> None:
    """Add the entry `symbol` of the kernel `name` to a module. InternalError for a type that entries cannot pass."""
    function = ir.Function(module, ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _WORD]), symbol)
    array_type, arguments, count = function.args
    python = _Python(module)
    builder = ir.IRBuilder(function.append_basic_block("begin"))
    for overload in overloads:
        misfit = function.append_basic_block("misfit")
        _require(builder, builder.icmp_signed("==", count, _WORD(len(overload.arguments))), misfit)
        objects = []
        for number, kind in enumerate(overload.arguments):
            value = builder.load(builder.gep(arguments, [_WORD(number)]))
            objects.append(value)
            if isinstance(kind, types.Array):
                _require_array(builder, value, kind, array_type, misfit)
        failed = function.append_basic_block("failed")
        values = [
            _array(builder, value, kind, overload.context)
            if isinstance(kind, types.Array)
            else _scalar(builder, value, kind, python, failed)
            for value, kind in zip(objects, overload.arguments, strict=True)
        ]
        _run(builder, overload, values, python, name)
        builder.position_at_end(failed)
        builder.ret(_OBJECT(None))
        builder.position_at_end(misfit)
    _raise(builder, python, loader.TYPE_ERROR, f"{name}() takes arrays of other types, layouts or number")


def _require(builder: ir.IRBuilder, condition: Any, otherwise: Any) -> None:
    fits = builder.append_basic_block("fits")
    builder.cbranch(condition, fits, otherwise)
    builder.position_at_end(fits)


def _field(builder: ir.IRBuilder, value: Any, offset: int, kind: ir.Type) -> Any:
    return builder.load(builder.bitcast(builder.gep(value, [_WORD(offset)]), kind.as_pointer()))


def _require_array(builder: ir.IRBuilder, value: Any, kind: Any, array_type: Any, misfit: Any) -> None:
    numbers = _TYPE_NUMBERS.get(kind.dtype)
    if numbers is None or kind.layout != "C":
        raise InternalError(f"a kernel cannot take {kind}")
    _require(builder, builder.icmp_unsigned("==", _field(builder, value, _TYPE, _OBJECT), array_type), misfit)
    dimensions = _field(builder, value, _DIMENSIONS, _INT)
    _require(builder, builder.icmp_signed("==", dimensions, _INT(kind.ndim)), misfit)
    # Not aligned: slices of Arrow's buffers may begin anywhere, and loads of single numbers and of vectors of them do not care.
    contiguous = builder.and_(_field(builder, value, _FLAGS, _INT), _INT(_C_CONTIGUOUS))
    _require(builder, builder.icmp_signed("!=", contiguous, _INT(0)), misfit)
    description = _field(builder, value, _DESCRIPTION, _OBJECT)
    number = _field(builder, description, _TYPE_NUMBER, _INT)
    is_type: Any = _BIT(0)
    for known in numbers:
        is_type = builder.or_(is_type, builder.icmp_signed("==", number, _INT(known)))
    _require(builder, is_type, misfit)
    order = _field(builder, description, _BYTE_ORDER, _BYTE)
    _require(builder, builder.icmp_signed("!=", order, _BYTE(ord(">"))), misfit)


def _array(builder: ir.IRBuilder, value: Any, kind: Any, context: Any) -> Any:
    """numba's struct of an array that the caller keeps alive."""
    array = context.make_array(kind)(context, builder)
    shape, strides = (_field(builder, value, field, _WORD.as_pointer()) for field in (_SHAPE, _STRIDES))
    places = [[_WORD(dimension)] for dimension in range(kind.ndim)]
    data_type = context.get_data_type(kind.dtype)
    populate_array(
        array,
        data=builder.bitcast(_field(builder, value, _DATA, _OBJECT), data_type.as_pointer()),
        shape=[builder.load(builder.gep(shape, place)) for place in places],
        strides=[builder.load(builder.gep(strides, place)) for place in places],
        itemsize=_WORD(context.get_abi_sizeof(data_type)),
        meminfo=None,
    )
    return array._getvalue()


def _scalar(builder: ir.IRBuilder, value: Any, kind: Any, python: _Python, failed: Any) -> Any:
    if kind == types.boolean:
        truth = builder.call(python.function("PyObject_IsTrue", _INT, _OBJECT), [value])
        _require(builder, builder.icmp_signed(">=", truth, _INT(0)), failed)
        return builder.icmp_signed(">", truth, _INT(0))
    if kind not in (types.int64, types.uint64):
        raise InternalError(f"a kernel cannot take {kind}")
    convert = "PyLong_AsLongLong" if kind == types.int64 else "PyLong_AsUnsignedLongLong"
    number = builder.call(python.function("PyNumber_Index", _OBJECT, _OBJECT), [value])
    _require(builder, builder.icmp_unsigned("!=", number, _OBJECT(None)), failed)
    word = builder.call(python.function(convert, _WORD, _OBJECT), [number])
    builder.call(python.function("Py_DecRef", ir.VoidType(), _OBJECT), [number])
    # -1 is also a number.
    with builder.if_then(builder.icmp_signed("==", word, _WORD(-1)), likely=False):
        error = builder.call(python.function("PyErr_Occurred", _OBJECT), [])
        _require(builder, builder.icmp_unsigned("==", error, _OBJECT(None)), failed)
    return word


def _run(builder: ir.IRBuilder, overload: Overload, values: list[Any], python: _Python, name: str) -> None:
    convention = overload.context.call_conv
    function_type = convention.get_function_type(overload.result, overload.arguments)
    native = ir.Function(builder.module, function_type, overload.symbol)
    thread = builder.call(python.function("PyEval_SaveThread", _OBJECT), [])
    status, result = convention.call_function(builder, native, overload.result, overload.arguments, values)
    builder.call(python.function("PyEval_RestoreThread", ir.VoidType(), _OBJECT), [thread])
    with builder.if_then(status.is_error, likely=False):
        _raise(builder, python, loader.ARITHMETIC_ERROR, f"{name}() divided by zero")
    builder.ret(_packed(builder, result, overload.result, python))


def _packed(builder: ir.IRBuilder, value: Any, kind: Any, python: _Python) -> Any:
    """A Python object of a result; NULL with an error set when there is no memory for it."""
    if kind == types.void:
        none = python.object(loader.NONE)
        builder.call(python.function("Py_IncRef", ir.VoidType(), _OBJECT), [none])
        return none
    if kind == types.boolean:
        return builder.call(python.function("PyBool_FromLong", _OBJECT, _WORD), [builder.zext(value, _WORD)])
    if kind == types.int64:
        return builder.call(python.function("PyLong_FromLongLong", _OBJECT, _WORD), [value])
    if kind == types.uint64:
        return builder.call(python.function("PyLong_FromUnsignedLongLong", _OBJECT, _WORD), [value])
    if isinstance(kind, types.UniTuple) and kind.dtype == types.int64:
        form = _text(builder.module, "(" + "L" * kind.count + ")")
        build = builder.module.globals.get("Py_BuildValue") or ir.Function(
            builder.module, ir.FunctionType(_OBJECT, [_OBJECT], var_arg=True), "Py_BuildValue"
        )
        return builder.call(build, [form, *(builder.extract_value(value, at) for at in range(kind.count))])
    raise InternalError(f"a kernel cannot return {kind}: let it write to an array of the caller")


def _raise(builder: ir.IRBuilder, python: _Python, kind: str, message: str) -> None:
    set_error = python.function("PyErr_SetString", ir.VoidType(), _OBJECT, _OBJECT)
    builder.call(set_error, [python.object(kind), _text(builder.module, message)])
    builder.ret(_OBJECT(None))


def _text(module: ir.Module, text: str) -> Any:
    data = bytearray(text.encode() + b"\0")
    value = ir.Constant(ir.ArrayType(_BYTE, len(data)), data)
    place = ir.GlobalVariable(module, value.type, module.get_unique_name("text"))
    place.initializer, place.linkage, place.global_constant = value, "internal", True
    return place.bitcast(_OBJECT)
