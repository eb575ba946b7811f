"""Functions of arrays and maps, against literal values and a reference that goes element by element."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from expression_harness import accepts, call, col, evaluate, lit

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.types import BOOLEAN, DOUBLE, INT, STRING

INTS = sql.array(INT)
TEXTS = sql.array(STRING)
MAP = sql.map_of(STRING, INT)


def distinct(values: list[Any]) -> list[Any]:
    return [v for i, v in enumerate(values) if v not in values[:i]]


def sliced(values: list[Any], start: int, end: int) -> list[Any]:
    first = max(start + len(values) + 1 if start < 0 else start, 1)
    last = end + len(values) + 1 if end < 0 else max(end, 1)
    return values[first - 1 : max(last, 0)]


def in_order(values: list[Any], ascending: bool, is_null_first: bool) -> list[Any]:
    present = sorted((v for v in values if v is not None), reverse=not ascending)
    missing = [None] * values.count(None)
    return [*missing, *present] if is_null_first else [*present, *missing]


REFERENCE: dict[str, tuple[tuple[sql.LogicalType, ...], Callable[..., Any], bool]] = {
    "ARRAY_APPEND": ((INTS, INT), lambda a, e: [*a, e], True),
    "ARRAY_PREPEND": ((INTS, INT), lambda a, e: [e, *a], True),
    "ARRAY_CONCAT": ((INTS, INTS, INTS), lambda *parts: [e for part in parts for e in part], False),
    "ARRAY_CONTAINS": ((INTS, INT), lambda a, e: e in a, True),
    "ARRAY_POSITION": ((INTS, INT), lambda a, e: a.index(e) + 1 if e in a else 0, False),
    "ARRAY_REMOVE": ((INTS, INT), lambda a, e: [x for x in a if x != e], True),
    "ARRAY_DISTINCT": ((INTS,), distinct, False),
    "ARRAY_UNION": ((INTS, INTS), lambda a, b: distinct([*a, *b]), False),
    "ARRAY_EXCEPT": ((INTS, INTS), lambda a, b: distinct([x for x in a if x not in b]), False),
    "ARRAY_INTERSECT": ((INTS, INTS), lambda a, b: distinct([x for x in a if x in b]), False),
    "ARRAY_REVERSE": ((INTS,), lambda a: a[::-1], False),
    "ARRAY_SLICE": ((INTS, INT, INT), sliced, False),
    "ARRAY_SORT": ((INTS, BOOLEAN, BOOLEAN), in_order, False),
    "ARRAY_MAX": ((INTS,), lambda a: max((x for x in a if x is not None), default=None), False),
    "ARRAY_MIN": ((INTS,), lambda a: min((x for x in a if x is not None), default=None), False),
    "ARRAY_JOIN": ((TEXTS, STRING), lambda a, d: d.join(x for x in a if x is not None), False),
}
"""Argument types, what a call gives, and whether NULL is an argument like others behind the array."""


def value_of(t: sql.LogicalType, pick: random.Random) -> Any:
    if pick.random() < 0.15:
        return None
    if t is INTS:
        return [pick.choice((None, 1, 2, 3, -4)) for _ in range(pick.randrange(6))]
    if t is TEXTS:
        return [pick.choice((None, "", "a", "bß")) for _ in range(pick.randrange(4))]
    return pick.choice({INT: (0, 1, 2, 3, -1, -4), BOOLEAN: (True, False), STRING: ("", ",", "ß")}[t])


@pytest.mark.parametrize("function", REFERENCE)
def test_a_function_gives_what_a_loop_over_the_elements_gives(function: str) -> None:
    types, loop, takes_null = REFERENCE[function]
    pick = random.Random(function)
    rows = [tuple(value_of(t, pick) for t in types) for _ in range(300)]
    wanted = [None if row[0] is None or (not takes_null and None in row) else loop(*row) for row in rows]
    assert evaluate(call(function, *(col(i, t) for i, t in enumerate(types))), rows) == wanted


ELEMENTS: list[tuple[sql.LogicalType, list[Any]]] = [
    (INT, [None, 0, -1, 2**31 - 1, -(2**31), *range(1, 40)]),
    (sql.BIGINT, [None, 0, -1, 2**63 - 1, -(2**63), *range(1, 40)]),
    (DOUBLE, [None, 0.0, -0.0, 1.5, float("inf"), *map(float, range(1, 40))]),
    (BOOLEAN, [None, True, False]),
    (STRING, [None, "", "a", "b", "12345678", "12345679", "x" * 40, "x" * 39 + "y", *map(str, range(30))]),
    (sql.BYTES, [None, b"", b"a", b"\0", b"\0\0", *(bytes([i]) * 9 for i in range(30))]),
    (sql.decimal(20, 2), [None, *(Decimal(i) / 4 for i in range(0, 120, 3))]),
    (sql.DATE, [None, *(datetime.date(1970, 1, 1) + datetime.timedelta(i) for i in range(40))]),
]
"""Types, each with values that its lists are made of."""
SETS: dict[str, Callable[[list[Any], list[Any]], list[Any]]] = {
    "ARRAY_DISTINCT": lambda a, b: distinct(a),
    "ARRAY_UNION": lambda a, b: distinct([*a, *b]),
    "ARRAY_EXCEPT": lambda a, b: distinct([x for x in a if x not in b]),
    "ARRAY_INTERSECT": lambda a, b: distinct([x for x in a if x in b]),
}


@pytest.mark.parametrize(("t", "values"), ELEMENTS, ids=[str(t) for t, _ in ELEMENTS])
def test_equal_elements_are_found_in_lists_of_any_length(t: sql.LogicalType, values: list[Any]) -> None:
    pick = random.Random(str(t))
    lists = [[pick.choice(values) for _ in range(pick.choice((0, 1, 3, 15, 16, 17, 40)))] for _ in range(120)]
    rows = list(zip(lists, [*lists[60:], *lists[:60]], strict=True))
    for function, loop in SETS.items():
        width = 1 if function == "ARRAY_DISTINCT" else 2
        found = evaluate(
            call(function, *(col(i, sql.array(t)) for i in range(width))), [r[:width] for r in rows]
        )
        assert found == [loop(*row) for row in rows], function
    keyed = [([x for x in a if x is not None],) for a in lists]
    made = call("MAP_FROM_ARRAYS", col(0, sql.array(t)), col(0, sql.array(t)))
    assert evaluate(call("MAP_KEYS", made), keyed) == [distinct(a[::-1])[::-1] for (a,) in keyed]
    both = call("MAP_UNION", made, made)
    assert evaluate(call("MAP_KEYS", both), keyed) == [distinct(a[::-1])[::-1] for (a,) in keyed]


def test_constant_arrays_are_compared_with_those_of_every_row() -> None:
    constant = call("ARRAY", *(lit(i, INT) for i in (1, None, 1, 7)))
    rows = [([1, 2, None, 2],), ([],), (None,), (list(range(30)),)]
    for function, loop in SETS.items():
        if function != "ARRAY_DISTINCT":
            found = evaluate(call(function, col(0, INTS), constant), rows)
            assert found == [None if a is None else loop(a, [1, None, 1, 7]) for (a,) in rows]
            turned = evaluate(call(function, constant, col(0, INTS)), rows)
            assert turned == [None if a is None else loop([1, None, 1, 7], a) for (a,) in rows]
    assert evaluate(call("ARRAY_CONCAT", constant, col(0, INTS)), rows[:2]) == [
        [1, None, 1, 7, 1, 2, None, 2],
        [1, None, 1, 7],
    ]


def test_zeros_are_equal_and_a_value_that_is_no_number_equals_itself() -> None:
    nan = float("nan")
    found = call("CARDINALITY", call("ARRAY_DISTINCT", col(0, sql.array(DOUBLE))))
    assert evaluate(found, [([0.0, -0.0, nan, nan],), ([0.0, 1.0],)]) == [2, 2]


def test_rows_are_compared_by_their_fields() -> None:
    pairs = sql.array(sql.row(("a", INT), ("b", STRING)))
    one, other, missing = {"a": 1, "b": None}, {"a": 1, "b": "x"}, None
    given = [([one, other, one, missing, missing],)]
    assert evaluate(call("ARRAY_DISTINCT", col(0, pairs)), given) == [[one, other, missing]]
    assert accepts("ARRAY_DISTINCT", pairs)
    assert not accepts("ARRAY_SORT", pairs)
    assert not accepts("ARRAY_DISTINCT", sql.array(INTS))


def test_arrays_and_elements_get_one_type() -> None:
    assert str(call("ARRAY_APPEND", col(0, INTS), col(1, DOUBLE)).type) == "ARRAY<DOUBLE>"
    assert not accepts("ARRAY_APPEND", INTS, STRING)
    assert not accepts("ARRAY_UNION", INTS, TEXTS)
    assert not accepts("ARRAY_CONTAINS", sql.NULL, INT)


def test_the_sort_without_flags_has_nulls_first_and_descending_ones_last() -> None:
    given = [([2, None, 3],)]
    assert evaluate(call("ARRAY_SORT", col(0, INTS)), given) == [[None, 2, 3]]
    down = call("ARRAY_SORT", col(0, INTS), lit(False, BOOLEAN.not_null()))
    assert evaluate(down, given) == [[3, 2, None]]


def test_an_array_with_several_elements_has_no_only_one() -> None:
    assert evaluate(call("ELEMENT", col(0, INTS)), [([7],), ([],), (None,), ([None],)]) == [
        7,
        None,
        None,
        None,
    ]
    with pytest.raises(UserError, match="ELEMENT got an array of 2 elements"):
        evaluate(call("ELEMENT", col(0, INTS)), [([1, 2],)])


@pytest.mark.parametrize(
    ("text", "delimiter", "parts"),
    [
        ("a,b,,c", ",", ["a", "b", "", "c"]),
        (",a,", ",", ["", "a", ""]),
        ("abc", "x", ["abc"]),
        ("", ",", [""]),
        ("äb", "", ["ä", "b"]),
        ("", "", []),
        ("a.b", ".", ["a", "b"]),
        (None, ",", None),
        ("a", None, None),
    ],
)
def test_text_is_split(text: str | None, delimiter: str | None, parts: list[str] | None) -> None:
    assert evaluate(call("SPLIT", col(0, STRING), col(1, STRING)), [(text, delimiter)]) == [parts]
    if delimiter is not None:
        fixed = call("SPLIT", col(0, STRING), lit(delimiter, STRING.not_null()))
        assert evaluate(fixed, [(text,)]) == [parts]


def test_maps_are_taken_apart_and_made() -> None:
    given = [([("a", 1), ("b", None)],), ([],), (None,)]
    assert evaluate(call("MAP_KEYS", col(0, MAP)), given) == [["a", "b"], [], None]
    assert evaluate(call("MAP_VALUES", col(0, MAP)), given) == [[1, None], [], None]
    entries = [[{"key": "a", "value": 1}, {"key": "b", "value": None}], [], None]
    assert evaluate(call("MAP_ENTRIES", col(0, MAP)), given) == entries
    made = call("MAP_FROM_ARRAYS", col(0, TEXTS), col(1, INTS))
    arrays = [(["a", "b", "a"], [1, 2, 3]), ([], []), (None, [1]), (["x"], None)]
    assert evaluate(made, arrays) == [[("b", 2), ("a", 3)], [], None, None]


def test_the_last_of_several_maps_decides_on_a_key() -> None:
    union = call("MAP_UNION", col(0, MAP), col(1, MAP))
    given = [([("a", 1), ("b", 2)], [("a", 9)]), ([], [("c", 1)]), (None, [])]
    assert evaluate(union, given) == [[("b", 2), ("a", 9)], [("c", 1)], None]


def test_keys_and_values_must_be_as_many_and_no_key_null() -> None:
    made = call("MAP_FROM_ARRAYS", col(0, TEXTS), col(1, INTS))
    with pytest.raises(UserError, match="got 1 keys and 2 values"):
        evaluate(made, [(["a"], [1, 2])])
    with pytest.raises(UserError, match="a key of a MAP is NULL"):
        evaluate(made, [([None], [1])])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("k1=v1,k2=v2", [("k1", "v1"), ("k2", "v2")]),
        ("a,b=1=2,,", [("a", None), ("b", "1=2")]),
        ("a=1,a=2", [("a", "2")]),
        ("=x,,b=", [("", None), ("b", "")]),
        ("", []),
        (",", []),
        (None, None),
    ],
)
def test_text_becomes_a_map(text: str | None, pairs: list[tuple[str, str | None]] | None) -> None:
    assert evaluate(call("STR_TO_MAP", col(0, STRING)), [(text,)]) == [pairs]


def test_the_delimiters_of_a_map_in_text_are_regular_expressions_also_from_columns() -> None:
    made = call("STR_TO_MAP", *(col(i, STRING) for i in range(3)))
    rows = [("a:1;b:2", ";", ":"), ("a1b|c2d", "[|]", "[0-9]"), ("a", None, "=")]
    assert evaluate(made, rows) == [[("a", "1"), ("b", "2")], [("a", "b"), ("c", "d")], None]
