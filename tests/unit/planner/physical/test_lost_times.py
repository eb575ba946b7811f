"""Operators that drop what is behind the watermark refuse times that rows may be behind it with."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE VIEW led AS SELECT k, ts, LEAD(v) OVER (PARTITION BY k ORDER BY ts) AS n FROM s;
CREATE VIEW joined AS SELECT a.k, a.ts, b.v AS n FROM s AS a JOIN s AS b ON a.k = b.k;
CREATE VIEW lagged AS SELECT k, ts, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS n FROM s;
"""
WINDOW = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' SECOND))"
AGGREGATE = f"SELECT window_start, MAX(n) AS m FROM {WINDOW} GROUP BY window_start, window_end"
ROWS = f"SELECT k, n, window_end FROM {WINDOW}"
LEGACY = "SELECT MAX(n) AS m FROM {} GROUP BY TUMBLE(ts, INTERVAL '2' SECOND)"
MATCH = "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY ts MEASURES A.n AS n PATTERN (A B) DEFINE A AS A.n > 0)"
SORT = "SELECT ts, n FROM {} ORDER BY ts"


@pytest.mark.parametrize("query", [AGGREGATE, ROWS, LEGACY, MATCH, SORT])
def test_rows_that_wait_for_rows_behind_them_have_no_place_in_order_of_time(query: str) -> None:
    with pytest.raises(UserError, match=r'needs the watermark of "ts", which this query has lost') as error:
        compile_script(f"{DDL} {query.format('led')};")
    assert error.value.code == "SS3412"
    assert error.value.span is not None
    compile_script(f"{DDL} {query.format('lagged')};")


@pytest.mark.parametrize("query", [MATCH, SORT])
def test_rows_of_a_join_have_no_place_in_order_of_time(query: str) -> None:
    with pytest.raises(UserError, match="needs the watermark") as error:
        compile_script(f"{DDL} {query.format('joined')};")
    assert error.value.code == "SS3412"


def test_the_first_rows_of_keys_by_arrival_have_their_place_in_order_of_time() -> None:
    arriving = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS place FROM s"
    first = f"CREATE VIEW seen AS SELECT k, ts, v AS n FROM ({arriving}) WHERE place = 1;"
    compile_script(f"{DDL} {first} {MATCH.format('seen')};")
