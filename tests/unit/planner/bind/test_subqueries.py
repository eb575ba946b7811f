"""Subqueries as values, of types that have no order."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = "CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');"


@pytest.mark.parametrize(
    "value", ["SELECT ROW(v, k) FROM s WHERE k = o.k", "SELECT ARRAY[v] FROM s WHERE k = o.k LIMIT 1"]
)
def test_a_row_and_any_value_of_one_row_are_values(value: str) -> None:
    assert compile_script(f"{DDL} SELECT k, ({value}) IS NULL FROM s AS o")


def test_several_arrays_are_refused_by_the_subquery_that_has_them() -> None:
    with pytest.raises(
        UserError, match=r"a subquery of type ARRAY<BIGINT> must have one row at most"
    ) as caught:
        compile_script(f"{DDL} SELECT k, (SELECT ARRAY[v] FROM s WHERE k = o.k) FROM s AS o")
    assert (caught.value.code, caught.value.span is not None) == ("SS3474", True)
