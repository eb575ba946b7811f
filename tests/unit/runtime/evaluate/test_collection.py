"""Rows, arrays and maps."""

from __future__ import annotations

import pytest
from expression_harness import call, col, evaluate, lit

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.types import BIGINT, INT, NULL, STRING


def test_fields_of_rows_are_read() -> None:
    row = sql.row(("a", INT), ("b", STRING))
    field = call("FIELD", col(0, row), lit(1, INT.not_null()))
    assert str(field.type) == "STRING"
    assert evaluate(field, [({"a": 1, "b": "x"},), (None,)]) == ["x", None]


def test_rows_arrays_and_maps_are_made() -> None:
    a, b = col(0, INT), col(1, BIGINT)
    rows = [(1, 2), (None, 4)]
    assert evaluate(call("ROW", a, b), rows) == [{"EXPR$0": 1, "EXPR$1": 2}, {"EXPR$0": None, "EXPR$1": 4}]
    assert evaluate(call("ARRAY", a, b, lit(9, INT)), rows) == [[1, 2, 9], [None, 4, 9]]
    made = call("MAP", lit("x", STRING.not_null()), a, lit("y", STRING.not_null()), b)
    assert evaluate(made, rows) == [[("x", 1), ("y", 2)], [("x", None), ("y", 4)]]


def test_items_count_from_one_and_are_null_outside() -> None:
    item = call("ITEM", col(0, sql.array(INT)), col(1, INT))
    rows = [([5, 6], 1), ([5, 6], 3), ([5], 0), (None, 1), ([7], None)]
    assert evaluate(item, rows) == [5, None, None, None, None]


def test_items_of_maps_are_found_by_key() -> None:
    item = call("ITEM", col(0, sql.map_of(STRING, INT)), col(1, STRING))
    rows = [({"a": 1, "b": 2}, "b"), ({"a": 1}, "z"), (None, "a"), ({}, "a")]
    assert evaluate(item, [(None if m is None else list(m.items()), k) for m, k in rows]) == [
        2,
        None,
        None,
        None,
    ]


def test_cardinality() -> None:
    assert evaluate(call("CARDINALITY", col(0, sql.array(INT))), [([1, 2],), ([],), (None,)]) == [2, 0, None]
    assert evaluate(call("CARDINALITY", col(0, sql.map_of(STRING, INT))), [([("a", 1)],), (None,)]) == [
        1,
        None,
    ]


def test_a_null_key_of_a_map_fails_with_the_reason() -> None:
    with pytest.raises(UserError, match="a key of a MAP is NULL"):
        evaluate(call("MAP", col(0, STRING), lit(1, INT)), [("a",), (None,)])


def test_constant_maps_are_made_for_any_number_of_rows() -> None:
    made = call("MAP", lit("x", STRING.not_null()), lit(1, INT))
    assert evaluate(made, [(), ()]) == [[("x", 1)], [("x", 1)]]
    assert evaluate(call("CARDINALITY", lit(None, NULL)), [()]) == [None]


def test_of_equal_keys_a_map_keeps_the_last() -> None:
    pairs = call("MAP", col(0, STRING), col(1, INT), col(2, STRING), col(3, INT))
    rows = [("a", 1, "a", 2), ("a", 1, "b", 2), ("b", 1, "b", None)]
    assert evaluate(pairs, rows) == [[("a", 2)], [("a", 1), ("b", 2)], [("b", None)]]
    assert evaluate(call("CARDINALITY", pairs), rows) == [1, 2, 1]


def test_an_array_has_no_element_before_the_first() -> None:
    with pytest.raises(UserError, match="at position 0"):
        evaluate(call("ITEM", col(0, sql.array(INT)), lit(0, INT.not_null())), [([1],)])
    assert evaluate(call("ITEM", col(0, sql.array(INT)), col(1, INT)), [([1], 0), ([1], -1)]) == [None, None]
