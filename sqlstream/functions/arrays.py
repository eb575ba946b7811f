"""Functions of arrays. The arguments of one call are converted to the type that all its elements share."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import (
    ARRAY,
    AS_INT,
    BOOL,
    TEXT,
    convert_each,
    is_any_nullable,
    returns,
    same_as,
    scalar,
)
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import Coercion, ResultType, ScalarFunction
from sqlstream.types import BOOLEAN, INT, STRING, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
_MANY = 100_000
_WITHOUT_EQUALITY = frozenset(
    (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.VARIANT, TypeRoot.BITMAP)
)


def has_equality(t: LogicalType) -> bool:
    """Whether values of the type are compared: all but arrays, maps and multisets, and rows that hold one."""
    return t.root not in _WITHOUT_EQUALITY and all(has_equality(f.type) for f in t.fields)


def _has_order(t: LogicalType) -> bool:
    return has_equality(t) and t.root is not TypeRoot.ROW


def _shared(types: Types) -> LogicalType | None:
    """The ARRAY type that all convert to, NULL when one is; NULL itself is an array of any type."""
    shared = common_type(types)
    return shared if shared is not None and shared.root is TypeRoot.ARRAY else None


def _alike(*, compares: bool) -> Coercion:
    """Arrays to one type; `compares`: the function looks for equal elements."""

    def coerce(types: Types) -> Types | None:
        shared = _shared(types)
        if shared is None or shared.element is None or (compares and not has_equality(shared.element)):
            return None
        return tuple(shared.with_nullable(t.nullable) for t in types)

    return coerce


def _with_element(*, compares: bool) -> Coercion:
    """An array and an element of it; further arguments as they are."""

    def coerce(types: Types) -> Types | None:
        array, element = types
        if array.root is not TypeRoot.ARRAY or array.element is None:
            return None
        shared = common_type((array.element, element))
        if shared is None or (compares and not has_equality(shared)):
            return None
        return sql.array(shared).with_nullable(array.nullable), shared.with_nullable(element.nullable)

    return coerce


def _of_comparable(types: Types) -> Types | None:
    (array,) = types
    fits = array.root is TypeRoot.ARRAY and array.element is not None and has_equality(array.element)
    return types if fits else None


def _of_ordered(types: Types) -> Types | None:
    array, *flags = types
    if array.root is not TypeRoot.ARRAY or array.element is None or not _has_order(array.element):
        return None
    converted = convert_each(BOOL)(tuple(flags)) if flags else ()
    return None if converted is None else (array, *converted)


def _texts(types: Types) -> Types | None:
    """An array of texts, then texts."""
    array, *others = types
    if array.root is not TypeRoot.ARRAY or array.element is None:
        return None
    converted = convert_each(TEXT)(tuple(others))
    return (array, *converted) if sql.is_string(array.element) and converted is not None else None


def _null_as_first(result: LogicalType) -> ResultType:
    return lambda types: result.with_nullable(types[0].nullable)


def _first(types: Types) -> LogicalType:
    """The type of the array: an element that is NULL makes no result NULL."""
    return types[0]


def _element(types: Types) -> LogicalType | None:
    """An element; NULL of an empty array."""
    element = types[0].element
    return None if element is None else element.with_nullable(True)


def _all(types: Types) -> LogicalType | None:
    return types[0].with_nullable(is_any_nullable(types))


def _of_two(name: str) -> ScalarFunction:
    return ScalarFunction(name, f"{name}(array1, array2)", 2, 2, _all, _alike(compares=True))


FUNCTIONS: tuple[ScalarFunction, ...] = (
    *(
        ScalarFunction(name, f"{name}(array, element)", 2, 2, _first, _with_element(compares=False))
        for name in ("ARRAY_APPEND", "ARRAY_PREPEND")
    ),
    ScalarFunction(
        "ARRAY_CONCAT", "ARRAY_CONCAT(array1 [, array2]*)", 1, _MANY, _all, _alike(compares=False)
    ),
    ScalarFunction(
        "ARRAY_CONTAINS",
        "ARRAY_CONTAINS(array, element)",
        2,
        2,
        _null_as_first(BOOLEAN),
        _with_element(compares=True),
    ),
    ScalarFunction(
        "ARRAY_POSITION",
        "ARRAY_POSITION(array, element)",
        2,
        2,
        returns(INT),
        _with_element(compares=True),
    ),
    ScalarFunction(
        "ARRAY_REMOVE", "ARRAY_REMOVE(array, element)", 2, 2, _first, _with_element(compares=True)
    ),
    ScalarFunction("ARRAY_DISTINCT", "ARRAY_DISTINCT(array)", 1, 1, _first, _of_comparable),
    *(_of_two(name) for name in ("ARRAY_UNION", "ARRAY_EXCEPT", "ARRAY_INTERSECT")),
    scalar("ARRAY_REVERSE", "ARRAY_REVERSE(array)", (ARRAY,), same_as(0)),
    scalar(
        "ARRAY_SLICE", "ARRAY_SLICE(array, start[, end])", (ARRAY, AS_INT, AS_INT), same_as(0), args_min=2
    ),
    ScalarFunction(
        "ARRAY_SORT", "ARRAY_SORT(array[, is_ascending[, is_null_first]])", 1, 3, _all, _of_ordered
    ),
    *(
        ScalarFunction(name, f"{name}(array)", 1, 1, _element, _of_ordered)
        for name in ("ARRAY_MAX", "ARRAY_MIN")
    ),
    ScalarFunction("ARRAY_JOIN", "ARRAY_JOIN(array, delimiter[, null_text])", 2, 3, returns(STRING), _texts),
    scalar("ORDERED_ARRAY", "ARRAY_AGG(value) WITHIN GROUP (ORDER BY key)", (ARRAY, TEXT), same_as(0)),
    scalar("ORDERED_LIST", "LISTAGG(text) WITHIN GROUP (ORDER BY key)", (ARRAY, TEXT), returns(STRING)),
    scalar("ELEMENT", "ELEMENT(array)", (ARRAY,), _element),
    scalar("SPLIT", "SPLIT(string, delimiter)", (TEXT, TEXT), returns(sql.array(STRING))),
)
