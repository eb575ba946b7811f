"""Rows with the types that a table declares."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.declared_rows import as_declared

STRUCT = pa.struct([("a", pa.int32())])


@pytest.mark.parametrize(
    ("given", "declared", "value"),
    [
        (pa.array([None, 7], pa.int32()), sql.BYTES, "7"),
        (pa.array([{"a": 1}], STRUCT), sql.STRING, "{'a': 1}"),
    ],
)
def test_types_of_which_no_value_fits_are_named_with_one(
    given: pa.Array, declared: sql.LogicalType, value: str
) -> None:
    with pytest.raises(UserError, match='a value of column "c" of table "t" does not fit') as raised:
        as_declared([("c", declared)], pa.table([given], names=["c"]), "t")
    assert (raised.value.code, raised.value.detail) == ("SS5065", f"the value is {value}")


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_value_and_null_have_every_type(values: list[Any]) -> None:
    for type_ in (pa.int32(), STRUCT):
        rows = as_declared([("c", sql.BYTES)], pa.table([pa.array(values, type_)], names=["c"]), "t")
        assert rows.column(0).equals(pa.nulls(len(values), pa.binary()))
