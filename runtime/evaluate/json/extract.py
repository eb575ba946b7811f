"""JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON, JSON_LENGTH and JSON_TYPE."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.functions.json import plain_path
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.json.documents import Documents, read_documents
from sqlstream.runtime.evaluate.json.follow import Found, follow
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_arrays, literal_of
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.text.json_path import Path, parse_path
from sqlstream.types import LogicalType, TypeRoot

Numbers = np.ndarray[Any, Any]
_HINTS = {
    "JSON_VALUE": "write NULL or DEFAULT … ON EMPTY and ON ERROR to go on without a value",
    "JSON_QUERY": "write NULL, EMPTY ARRAY or EMPTY OBJECT ON EMPTY and ON ERROR to go on without a value",
    "JSON_EXISTS": "write FALSE, TRUE or UNKNOWN ON ERROR to go on without a value",
}


def path_of(call: Call) -> Path:
    return parse_path(str(literal_of(call, 1)))


def _documents_at(path: Path, text: pa.Array) -> tuple[Found, Numbers]:
    """What the path leads to, and which rows are NULL."""
    found = follow(path, read_documents(text))
    return found, text.is_null().to_numpy(zero_copy_only=False)


def converter(
    source: LogicalType, target: LogicalType, context: EvaluationContext
) -> Callable[[pa.Array], pa.Array]:
    """From values to `target`; NULL where a text is no such value."""
    if sql.is_string(source) and target.root is TypeRoot.VARCHAR and target.length >= sql.VARCHAR_LENGTH_MAX:
        return lambda values: values
    from sqlstream.runtime.evaluate.program import Program

    call: Expression = Call("TRY_CAST", (InputRef(0, source),), target.with_nullable(True))
    program = Program((call,), context)
    return lambda values: program.run([values], len(values))[0]


def json_value(call: Call, context: EvaluationContext) -> Kernel:
    """(document, path[, on empty, its default, on error, its default]): the scalar at a path, as the type of the call.

    Empty: JSON's null; in lax mode also what is missing and what is no scalar, which in strict mode are errors.
    """
    path = path_of(call)
    on_empty, on_error = (
        ("NULL", "NULL") if len(call.args) < 6 else (literal_of(call, 2), literal_of(call, 4))
    )
    convert = _number_converter(call.type, context)
    defaults = (
        [converter(call.args[p].type, call.type, context) for p in (3, 5)] if len(call.args) == 6 else []
    )

    def kernel(*given: Datum) -> pa.Array:
        args = as_arrays(*given)
        found, is_null = _documents_at(path, args[0])
        text, is_empty, is_error = _scalars(found, path.is_lax)
        value = convert(text)
        if value is not text:
            is_unfit = pc.and_(text.is_valid(), value.is_null()).to_numpy(zero_copy_only=False)
            if on_error == "ERROR" and is_unfit.any():
                raise _unfit(call.type, text, args[0], is_unfit)
            is_error |= is_unfit
        is_error &= ~is_null
        is_empty &= ~is_null & ~is_error
        if on_empty == "DEFAULT":
            default = defaults[0](args[3])
            is_unfit = pc.and_(args[3].is_valid(), default.is_null()).to_numpy(zero_copy_only=False)
            value = _replaced(value, is_empty & ~is_unfit, default)
            is_error |= is_empty & is_unfit
        elif on_empty == "ERROR" and is_empty.any():
            raise _no_value("JSON_VALUE", args[0], is_empty)
        if on_error == "DEFAULT" and is_error.any():
            default = defaults[1](args[5])
            is_unfit = pc.and_(args[5].is_valid(), default.is_null()).to_numpy(zero_copy_only=False)
            if (is_error & is_unfit).any():
                raise UserError(
                    "SS5102", f"the default ON ERROR of JSON_VALUE is no {call.type.with_nullable(True)}"
                )
            value = _replaced(value, is_error, default)
        elif on_error == "ERROR" and is_error.any():
            raise _failed("JSON_VALUE", args[0], is_error)
        return value

    return kernel


def _number_converter(target: LogicalType, context: EvaluationContext) -> Callable[[pa.Array], pa.Array]:
    """As `converter` of texts; an exact number may be written with an exponent, as in 1E+2."""
    convert = converter(sql.STRING, target, context)
    if not (sql.is_integer(target) or target.root is TypeRoot.DECIMAL):
        return convert

    def converted(texts: pa.Array) -> pa.Array:
        has_exponent = pc.match_substring_regex(texts, _WITH_EXPONENT)
        if not pc.any(has_exponent).as_py():
            return convert(texts)
        # The few that have one are written one by one: Arrow reads no such number exactly.
        plain = pa.array([f"{decimal.Decimal(t):f}" for t in texts.filter(has_exponent).to_pylist()])
        return convert(pc.replace_with_mask(texts, pc.fill_null(has_exponent, False), plain))

    return converted


_WITH_EXPONENT = r"\A-?[0-9]+(?:\.[0-9]+)?E[+-][0-9]{1,2}\z"
"""Longer exponents are of numbers that no type holds, or that are next to 0."""


def _scalars(found: Found, is_lax: bool) -> tuple[pa.Array, Numbers, Numbers]:
    """The text of the scalar at the path, and the rows that are empty and in error."""
    rows = len(found.is_failed)
    is_error = found.is_failed.copy()
    if not found.is_definite:
        nothing = pa.nulls(rows, pa.string())
        return nothing, ~is_error & is_lax, is_error | (not is_lax)
    kinds = found.documents.kinds(found.values)
    is_container = kinds >= json_tape.ARRAY
    is_empty = (kinds == json_tape.NULL) | ((is_container | (kinds < 0)) & is_lax)
    is_error |= is_container & (not is_lax)
    is_scalar = (kinds >= 0) & ~is_container & (kinds != json_tape.NULL)
    return found.documents.texts(np.where(is_scalar, found.values, -1)), is_empty & ~is_error, is_error


def _replaced(values: pa.Array, mask: Numbers, instead: pa.Array) -> pa.Array:
    if not mask.any():
        return values
    return pc.if_else(pa.array(mask), instead.cast(values.type), values)


def _shown(text: pa.Array, mask: Numbers) -> str:
    shown = str(text[int(np.flatnonzero(mask)[0])].as_py())
    return shown if len(shown) <= 60 else shown[:60] + "…"


def _no_value(name: str, text: pa.Array, mask: Numbers) -> UserError:
    return UserError("SS5102", f"{name} found no value in '{_shown(text, mask)}'", hint=_HINTS[name])


def _unfit(wanted: LogicalType, value: pa.Array, text: pa.Array, mask: Numbers) -> UserError:
    return UserError(
        "SS5102",
        f"JSON_VALUE found '{_shown(value, mask)}' in '{_shown(text, mask)}', which is no {wanted.with_nullable(True)}",
        hint=_HINTS["JSON_VALUE"],
    )


def _failed(name: str, text: pa.Array, mask: Numbers) -> UserError:
    return UserError(
        "SS5102",
        f"{name} found no such value, or malformed JSON, in '{_shown(text, mask)}'",
        hint=_HINTS[name],
    )


def json_exists(call: Call, context: EvaluationContext) -> Kernel:
    """(document, path[, on error]): whether a path leads to a value other than JSON's null."""
    path = path_of(call)
    on_error = literal_of(call, 2) if len(call.args) == 3 else "FALSE"

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        found, is_null = _documents_at(path, text)
        is_error = found.is_failed & ~is_null
        if on_error == "ERROR" and is_error.any():
            raise _failed("JSON_EXISTS", text, is_error)
        if found.is_definite:
            kinds = found.documents.kinds(found.values)
            exists = (kinds >= 0) & (kinds != json_tape.NULL)
        else:
            exists = np.zeros(len(is_null), bool)
            exists[found.owners] = True
        exists = np.where(is_error, on_error == "TRUE", exists)
        return pa.array(exists, mask=is_null | (is_error & (on_error == "UNKNOWN")))

    return kernel


_EMPTY_TEXTS = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}"}


def json_query(call: Call, context: EvaluationContext) -> Kernel:
    """(document, path[, wrapper, on empty, on error]): the object or array at a path, as JSON or as ARRAY<STRING>."""
    path = path_of(call)
    wrapper, on_empty, on_error = (
        [str(literal_of(call, p)) for p in (2, 3, 4)] if len(call.args) == 5 else ["WITHOUT", "NULL", "NULL"]
    )
    is_array = call.type.root is TypeRoot.ARRAY
    target = to_arrow_type(call.type)

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        found, is_null = _documents_at(path, text)
        value, is_empty, is_error = (_arrays if is_array else _json)(found, wrapper, path.is_lax)
        value = value.cast(target)
        for mask, behaviour, refused in (
            (is_empty & ~is_null, on_empty, _no_value),
            (is_error & ~is_null, on_error, _failed),
        ):
            if not mask.any() or behaviour == "NULL":
                continue
            if behaviour == "ERROR":
                raise refused("JSON_QUERY", text, mask)
            instead = [] if is_array else _EMPTY_TEXTS[behaviour]
            value = _chosen(value, mask, pa.array([instead], target))
        return value

    return kernel


def _chosen(values: pa.Array, mask: Numbers, one: pa.Array) -> pa.Array:
    """The only value of `one` where the mask is true."""
    places = np.where(mask, len(values), np.arange(len(values)))
    return pa.concat_arrays([values, one]).take(pa.array(places))


def _json(found: Found, wrapper: str, is_lax: bool) -> tuple[pa.Array, Numbers, Numbers]:
    """The JSON at the path, and the rows that are empty and in error."""
    is_error = found.is_failed.copy()
    if not found.is_definite:
        items = found.documents.json(found.values)
        lists = pa.ListArray.from_arrays(pa.array(found.offsets()), items)
        text = pc.binary_join_element_wise(
            "[[" if wrapper == "UNCONDITIONAL" else "[",
            pc.binary_join(lists, ","),
            "]]" if wrapper == "UNCONDITIONAL" else "]",
            "",
        )
        return (
            pc.if_else(pa.array(is_error), pa.scalar(None, pa.string()), text),
            np.zeros(len(is_error), bool),
            is_error,
        )
    kinds = found.documents.kinds(found.values)
    is_null, is_scalar = kinds == json_tape.NULL, (kinds >= 0) & (kinds < json_tape.ARRAY)
    if wrapper == "WITHOUT":
        is_error |= is_scalar & ~is_null & (not is_lax)
        is_empty = is_null | ((is_scalar | (kinds < 0)) & is_lax)
        wraps = np.zeros(len(kinds), bool)
    else:
        is_empty = is_null | ((kinds < 0) & is_lax)
        wraps = np.ones(len(kinds), bool) if wrapper == "UNCONDITIONAL" else kinds != json_tape.ARRAY
    is_empty &= ~is_error
    text = found.documents.json(np.where(is_empty | is_error, -1, found.values))
    if wraps.any():
        text = pc.if_else(pa.array(wraps), pc.binary_join_element_wise("[", text, "]", ""), text)
    return text, is_empty, is_error


def _arrays(found: Found, wrapper: str, is_lax: bool) -> tuple[pa.Array, Numbers, Numbers]:
    """The elements of the array at the path: characters of scalars, JSON of objects and arrays, NULL for null."""
    documents, is_error = found.documents, found.is_failed.copy()
    if not found.is_definite or wrapper != "WITHOUT":
        text, is_empty, is_error = _json(found, wrapper, is_lax)
        wrapped = read_documents(text)
        return _elements_of(wrapped, wrapped.roots), is_empty, is_error
    kinds = documents.kinds(found.values)
    is_array = kinds == json_tape.ARRAY
    is_null = kinds == json_tape.NULL
    is_scalar = (kinds >= 0) & (kinds < json_tape.ARRAY) & ~is_null
    is_empty = is_null | ((is_scalar | (kinds < 0)) & is_lax)
    is_error |= (kinds == json_tape.OBJECT) | (is_scalar & (not is_lax))
    return _elements_of(documents, np.where(is_array, found.values, -1)), is_empty & ~is_error, is_error


def _elements_of(documents: Any, values: Numbers) -> pa.Array:
    """The elements of each array as texts; NULL for -1."""
    children, counts = documents.children(values)
    kinds = documents.kinds(children)
    is_scalar = kinds < json_tape.ARRAY
    texts = pc.if_else(
        pa.array(is_scalar),
        documents.texts(np.where(is_scalar & (kinds != json_tape.NULL), children, -1)),
        documents.json(np.where(is_scalar, -1, children)),
    )
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), texts, mask=pa.array(values < 0))


_NAMES = ("string", "number", "boolean", "boolean", "null", "array", "object")


def is_json(call: Call, context: EvaluationContext) -> Kernel:
    """(text, kind): whether a text is JSON of a kind: VALUE, SCALAR, ARRAY or OBJECT."""
    kind = literal_of(call, 1)

    def kernel(text: Datum, *_: Datum) -> pa.Array:
        documents = read_documents(text)
        kinds = documents.kinds(documents.roots)
        if kind == "SCALAR":
            holds = (kinds >= 0) & (kinds < json_tape.ARRAY)
        elif kind == "VALUE":
            holds = kinds >= 0
        else:
            holds = kinds == (json_tape.ARRAY if kind == "ARRAY" else json_tape.OBJECT)
        return pa.array(holds, mask=documents.text.is_null().to_numpy(zero_copy_only=False))

    return kernel


def _plain_path(call: Call) -> Path | None:
    return Path(True, ()) if len(call.args) == 1 else plain_path(call, literal_of(call, 1))


def _single(path: Path, text: pa.Array) -> tuple[Documents, Numbers]:
    """The one value at the path; -1 where there are none or several."""
    found = follow(Path(True, path.steps), read_documents(text))
    if found.is_definite:
        return found.documents, found.values
    offsets = found.offsets()
    has_one = np.diff(offsets) == 1
    values = np.full(len(has_one), -1, np.int32)
    values[has_one] = found.values[offsets[:-1][has_one]]
    return found.documents, values


def json_length(call: Call, context: EvaluationContext) -> Kernel:
    """(document[, path]): how many elements an array and members an object has; 1 for a scalar."""
    path = _plain_path(call)

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        if path is None:
            return pa.nulls(len(text), pa.int32())
        documents, values = _single(path, text)
        is_scalar = documents.kinds(values) < json_tape.ARRAY
        return pa.array(np.where(is_scalar, 1, documents.counts(values)), pa.int32(), mask=values < 0)

    return kernel


def json_type(call: Call, context: EvaluationContext) -> Kernel:
    """(document[, path]): object, array, string, number, boolean or null."""
    path = _plain_path(call)

    def kernel(*given: Datum) -> pa.Array:
        text = as_arrays(*given)[0]
        if path is None:
            return pa.nulls(len(text), pa.string())
        documents, values = _single(path, text)
        return pa.array(_NAMES).take(pa.array(documents.kinds(values).astype(np.int32), mask=values < 0))

    return kernel
