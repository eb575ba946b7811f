"""Keys that no operator could keep are refused when the statement is planned, under the SQL that asks for them."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = """
CREATE TABLE s (k BIGINT, a ARRAY<BIGINT>, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
"""


def refused(sql: str, **config: str) -> tuple[str, str]:
    """(message, underlined text)"""
    text = DDL + sql
    settings = {k.replace("__", "."): v for k, v in config.items()}
    with pytest.raises(UserError) as error:
        compile_script(text, settings | {"table.local-time-zone": config.get("zone", "UTC")})
    span = error.value.span
    assert span is not None
    return error.value.message, text[span.start : span.end]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM u) WHERE r <= 3",
        "SELECT *, SUM(n) OVER (ORDER BY k) AS total FROM u",
        "SELECT u.a FROM u JOIN s ON u.k = s.k",
    ],
)
def test_rows_that_are_taken_back_may_have_values_of_any_type(query: str) -> None:
    view = "CREATE VIEW u AS SELECT k, COUNT(*) AS n, FIRST_VALUE(a) AS a FROM s GROUP BY k;"
    compile_script(f"{DDL} {view} {query};")


def test_updated_rows_are_sorted_whatever_their_types() -> None:
    bounded = "(VALUES (1, ARRAY[1]), (2, ARRAY[2])) AS t(k, a)"
    compile_script(f"{DDL} SELECT k, FIRST_VALUE(a) AS a FROM {bounded} GROUP BY k ORDER BY k;")


def test_ranks_over_updating_input_are_bounded() -> None:
    counted = "SELECT k, COUNT(*) AS n FROM s GROUP BY k"
    ranked = (
        f"SELECT k FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM ({counted})) WHERE r <= 65536"
    )
    assert refused(ranked)[0] == "a Top-N over updating input keeps at most 65535 ranks, not 65536"
    compile_script(f"{DDL} {ranked.replace('65536', '65535')};")


def test_values_of_any_type_are_aggregated_though_they_are_taken_back() -> None:
    latest = "SELECT k, MAX(k) AS x, LAST_VALUE(a) AS a FROM s GROUP BY k"
    for function in ("FIRST_VALUE", "LAST_VALUE", "ARRAY_AGG", "COLLECT"):
        compile_script(f"{DDL} SELECT {function}(x), {function}(a), {function}(ROW(x, a)) FROM ({latest});")
    compile_script(f"{DDL} SELECT COUNT(DISTINCT a), ARRAY_AGG(DISTINCT ROW(x, a)) FROM ({latest});")
    compile_script(f"{DDL} SELECT a, COUNT(*) FROM s GROUP BY a; SELECT DISTINCT ROW(k, a) FROM ({latest});")
    for nested in ("MAP[k, k]", "ARRAY[MAP[k, k]]", "ARRAY[PARSE_JSON('1')]"):
        assert refused(f"SELECT COUNT(*) FROM s GROUP BY {nested}")[1] == nested
    collected = "SELECT k, COLLECT(k) AS m FROM s GROUP BY k"
    assert refused(f"SELECT COUNT(*) FROM ({collected}) GROUP BY m") == (
        "GROUP BY takes no value of type MULTISET<BIGINT NOT NULL>",
        "m",
    )
