"""Operators that drop what is behind the watermark refuse times that rows may be behind it with."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE VIEW led AS SELECT k, ts, LEAD(v) OVER (PARTITION BY k ORDER BY ts) AS n FROM s;
CREATE VIEW joined AS SELECT a.k, a.ts, b.v AS n FROM s AS a JOIN s AS b ON a.k = b.k;
CREATE VIEW contained AS SELECT k, ts, v AS n FROM s WHERE k IN (SELECT v FROM s);
CREATE VIEW corrected AS SELECT k, TUMBLE_ROWTIME(ts, INTERVAL '1' SECOND) AS ts, MAX(v) AS n FROM s
  GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE VIEW near AS SELECT a.k, a.ts, b.v AS n FROM s AS a JOIN s AS b
  ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
CREATE VIEW own AS SELECT * FROM s /*+ OPTIONS('scan.watermark.emit.strategy'='on-event') */;
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


SESSION = "SELECT COUNT(*) FROM {} GROUP BY SESSION(ts, INTERVAL '2' SECOND)"


@pytest.mark.parametrize("query", [AGGREGATE, ROWS, LEGACY, SESSION, MATCH, SORT])
@pytest.mark.parametrize("table", ["joined", "contained", "corrected"])
def test_rows_that_an_operator_emits_long_after_they_came_have_no_place_in_order_of_time(
    query: str, table: str
) -> None:
    settings = {"table.exec.emit.allow-lateness": "1 s"} if table == "corrected" else {}
    with pytest.raises(UserError, match=r"needs the watermark|doesn't support consuming update") as error:
        compile_script(f"{DDL} {query.format(table)};", settings)
    assert error.value.code in ("SS3412", "SS3011")
    assert error.value.hint
    if query in (AGGREGATE, ROWS, LEGACY):
        assert error.value.code == "SS3412"
        assert "would drop it as late" in error.value.detail


def test_rows_of_a_join_that_holds_the_watermark_back_have_their_place() -> None:
    for query in (AGGREGATE, ROWS, LEGACY, SESSION, MATCH, SORT):
        compile_script(f"{DDL} {query.format('near')};")


@pytest.mark.parametrize(
    "query", [SESSION, "SELECT * FROM SESSION(TABLE {} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)"]
)
def test_a_session_of_rows_with_watermarks_of_their_own_is_refused_wherever_it_stands(query: str) -> None:
    with pytest.raises(UserError, match="SESSION") as error:
        compile_script(f"{DDL} {query.format('own')};")
    assert error.value.code == "SS3018"
    compile_script(f"{DDL} {query.format('s')};")


def test_the_first_rows_of_keys_by_arrival_have_their_place_in_order_of_time() -> None:
    arriving = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS place FROM s"
    first = f"CREATE VIEW seen AS SELECT k, ts, v AS n FROM ({arriving}) WHERE place = 1;"
    compile_script(f"{DDL} {first} {MATCH.format('seen')};")


@pytest.mark.parametrize("query", [AGGREGATE, ROWS, LEGACY, MATCH, SORT])
def test_no_row_is_late_where_there_is_none(query: str) -> None:
    compile_script(f"{DDL} CREATE VIEW none AS SELECT * FROM lagged WHERE FALSE; {query.format('none')};")


def test_conditions_of_a_match_take_json_functions() -> None:
    condition = "JSON_EXISTS(JSON_OBJECT('n' VALUE A.n), '$.n')"
    compile_script(f"{DDL} {MATCH.format('lagged').replace('A.n > 0', condition)};")
