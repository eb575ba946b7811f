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
from sqlstream.functions.signature import Coercion, Rejects, ResultType, ScalarFunction
from sqlstream.types import BOOLEAN, INT, STRING, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
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
    return scalar(f"{name}(array1, array2)", f"arrays:{name}", _alike(compares=True), _all)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "ARRAY_APPEND(array, element)", "arrays:ARRAY_APPEND", _with_element(compares=False), _first
    ).described("The array with an element at its end.", "ARRAY_APPEND(ARRAY[1, 2], 3)", "[1, 2, 3]"),
    scalar(
        "ARRAY_PREPEND(array, element)", "arrays:ARRAY_PREPEND", _with_element(compares=False), _first
    ).described("The array with an element at its beginning.", "ARRAY_PREPEND(ARRAY[1, 2], 0)", "[0, 1, 2]"),
    scalar("ARRAY_CONCAT(array1 [, array2]*)", "arrays:ARRAY_CONCAT", _alike(compares=False), _all).described(
        "The elements of all arrays, one array after another.",
        "ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])",
        "[1, 2, 3]",
    ),
    scalar(
        "ARRAY_CONTAINS(array, element)",
        "arrays:ARRAY_CONTAINS",
        _with_element(compares=True),
        _null_as_first(BOOLEAN),
    ).described(
        "Whether the array has this element; NULL is looked for like a value.",
        "ARRAY_CONTAINS(ARRAY[1, 2], 2)",
        "TRUE",
    ),
    scalar(
        "ARRAY_POSITION(array, element)", "arrays:ARRAY_POSITION", _with_element(compares=True), returns(INT)
    ).described(
        "The position, from 1, of the first such element; 0 when there is none.",
        "ARRAY_POSITION(ARRAY['a', 'b'], 'b')",
        "2",
    ),
    scalar(
        "ARRAY_REMOVE(array, element)", "arrays:ARRAY_REMOVE", _with_element(compares=True), _first
    ).described(
        "The array without the elements that equal the second argument.",
        "ARRAY_REMOVE(ARRAY[1, 2, 1], 1)",
        "[2]",
    ),
    scalar("ARRAY_DISTINCT(array)", "arrays:ARRAY_DISTINCT", _of_comparable, _first).described(
        "The array with the first of equal elements only.", "ARRAY_DISTINCT(ARRAY[2, 1, 2])", "[2, 1]"
    ),
    _of_two("ARRAY_UNION").described(
        "The distinct elements of two arrays.", "ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", "[1, 2, 3]"
    ),
    _of_two("ARRAY_EXCEPT").described(
        "The distinct elements of the first array that the second has not.",
        "ARRAY_EXCEPT(ARRAY[1, 2], ARRAY[2])",
        "[1]",
    ),
    _of_two("ARRAY_INTERSECT").described(
        "The distinct elements of the first array that the second has too.",
        "ARRAY_INTERSECT(ARRAY[1, 2], ARRAY[2])",
        "[2]",
    ),
    scalar("ARRAY_REVERSE(array)", "arrays:ARRAY_REVERSE", (ARRAY,), same_as(0)).described(
        "The array from its last element to its first.", "ARRAY_REVERSE(ARRAY[1, 2])", "[2, 1]"
    ),
    scalar(
        "ARRAY_SLICE(array, start[, end])", "arrays:ARRAY_SLICE", (ARRAY, AS_INT, AS_INT), same_as(0)
    ).described(
        "The elements from one position to another, both included; negative ones count from the end.",
        "ARRAY_SLICE(ARRAY[1, 2, 3], 2)",
        "[2, 3]",
    ),
    scalar(
        "ARRAY_SORT(array[, is_ascending[, is_null_first]])", "arrays:ARRAY_SORT", _of_ordered, _all
    ).described(
        "The elements by size: ascending with NULLs first, or descending (FALSE) with NULLs last.",
        "ARRAY_SORT(ARRAY[2, 3, 1], FALSE)",
        "[3, 2, 1]",
    ),
    scalar("ARRAY_MAX(array)", "arrays:ARRAY_MAX", _of_ordered, _element).described(
        "The greatest element that is not NULL.", "ARRAY_MAX(ARRAY[1, 3, 2])", "3"
    ),
    scalar("ARRAY_MIN(array)", "arrays:ARRAY_MIN", _of_ordered, _element).described(
        "The least element that is not NULL.", "ARRAY_MIN(ARRAY[1, 3, 2])", "1"
    ),
    scalar(
        "ARRAY_JOIN(array, delimiter[, null_text])", "arrays:ARRAY_JOIN", _texts, returns(STRING)
    ).described(
        "The texts of an array with a delimiter between; NULLs are left out or replaced.",
        "ARRAY_JOIN(ARRAY['a', 'b'], '-')",
        "a-b",
    ),
    scalar(
        "ARRAY_AGG(value) WITHIN GROUP (ORDER BY key)",
        "arrays:ordered_array",
        (ARRAY, TEXT),
        same_as(0),
        name="ORDERED_ARRAY",
    ),
    scalar(
        "LISTAGG(text) WITHIN GROUP (ORDER BY key)",
        "arrays:ordered_list",
        (ARRAY, TEXT),
        returns(STRING),
        name="ORDERED_LIST",
    ),
    scalar("ELEMENT(array)", "arrays:ELEMENT", (ARRAY,), _element, rejects=Rejects.VALUES).described(
        "The only element of an array; NULL when it is empty, an error when it has several.",
        "ELEMENT(ARRAY[7])",
        "7",
    ),
    scalar("SPLIT(string, delimiter)", "arrays:split", (TEXT, TEXT), returns(sql.array(STRING))).described(
        "The parts of a text between delimiters; an empty delimiter splits into characters.",
        "SPLIT('a,b', ',')",
        "[a, b]",
    ),
)
