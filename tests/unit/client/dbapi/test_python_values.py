"""Values of nested columns, whose batches are slices of others."""

from __future__ import annotations

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.client.dbapi.python_values import python_rows, python_values
from sqlstream.schema import Schema


def test_slices_of_nested_columns_have_their_own_values() -> None:
    lists = pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32()))
    maps = pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.array([{"x": 1}, None, {"x": None}, {"x": 4}], pa.struct([("x", pa.int32())]))
    schema = Schema.of(
        ("l", sql.array(sql.INT)), ("m", sql.map_of(sql.STRING, sql.INT)), ("r", sql.row(("x", sql.INT)))
    )
    batch = pa.RecordBatch.from_arrays([lists, maps, rows], names=["l", "m", "r"])
    expected = [([1, 2], {"a": 1}, (1,)), (None, {}, None), ([], None, (None,)), ([3], {"b": None}, (4,))]
    assert python_rows(batch, schema) == expected
    assert python_rows(batch.slice(1, 2), schema) == expected[1:3]
    assert python_rows(batch.slice(3), schema) == expected[3:]


def test_maps_with_keys_that_python_cannot_hash_are_pairs() -> None:
    column = pa.array([[([1], "x")]], pa.map_(pa.list_(pa.int32()), pa.string()))
    assert python_values(column, sql.map_of(sql.array(sql.INT), sql.STRING)) == [[([1], "x")]]


def test_a_multiset_counts_its_elements() -> None:
    column = pa.array([[("a", 2)], None], pa.map_(pa.string(), pa.int32()))
    assert python_values(column, sql.multiset(sql.STRING)) == [{"a": 2}, None]


def test_the_row_kinds_are_no_value() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1], "$row_kind": pa.array([0], pa.int8())})
    assert python_rows(batch, Schema.of(("n", sql.BIGINT))) == [(1,)]
