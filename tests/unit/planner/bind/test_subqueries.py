"""Subqueries as values, of types that have no order."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

DDL = "CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');"


@pytest.mark.parametrize(
    "value",
    [
        "SELECT ROW(v, k) FROM s WHERE k = o.k",
        "SELECT ARRAY[v] FROM s WHERE k = o.k",
        "SELECT MAP[v, ARRAY[k]] FROM s WHERE k = o.k",
        "SELECT PARSE_JSON('1') FROM s WHERE k = o.k",
    ],
)
def test_one_value_of_any_type_is_a_value(value: str) -> None:
    assert compile_script(f"{DDL} SELECT k, ({value}) IS NULL FROM s AS o")
