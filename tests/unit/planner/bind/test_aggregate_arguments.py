"""What single aggregate functions take besides what their signatures say."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError


def planner() -> Planner:
    made = Planner()
    made.run("CREATE TABLE t (a INT, s STRING) WITH ('connector' = 'datagen')")
    return made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("PERCENTILE(a, 1.5)", "PERCENTILE takes percentages from 0 to 1, not 1.5"),
        ("PERCENTILE(a, -0.1)", "PERCENTILE takes percentages from 0 to 1, not -0.1"),
        ("PERCENTILE(a, ARRAY[0.5, 2])", "PERCENTILE takes percentages from 0 to 1, not 2"),
        ("PERCENTILE(DISTINCT a, 0.5, 2)", "PERCENTILE(DISTINCT …) takes no frequency"),
        ("SUM(a) IGNORE NULLS", "SUM does not take IGNORE NULLS"),
        ("FIRST_VALUE(a) RESPECT NULLS", "FIRST_VALUE does not take RESPECT NULLS"),
    ],
)
def test_what_an_aggregate_does_not_take_is_refused(call: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        planner().bind(f"SELECT {call} FROM t")
    assert (caught.value.code, caught.value.message) == ("SS3461", message)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    "call",
    [
        *("ARRAY_AGG(a IGNORE NULLS)", "ARRAY_AGG(a) IGNORE NULLS", "ARRAY_AGG(DISTINCT a RESPECT NULLS)"),
        *(
            "FIRST_VALUE(a) IGNORE NULLS",
            "PERCENTILE(a, 0)",
            "PERCENTILE(a, ARRAY[0.5, 1])",
            "PERCENTILE(a, 0.5, 2)",
        ),
    ],
)
def test_what_an_aggregate_takes_is_bound(call: str) -> None:
    planner().bind(f"SELECT {call} FROM t")


def test_types_that_have_no_order_are_refused() -> None:
    for call in ("MAX(ARRAY[a])", "MIN(ROW(a, s))", "PERCENTILE(s, 0.5)"):
        with pytest.raises(UserError, match="cannot be applied to"):
            planner().bind(f"SELECT {call} FROM t")
