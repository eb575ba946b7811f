"""The hint STATE_TTL: which state it is about, and where it has no use."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError
from sqlstream.planner.physical.node import walk_plan
from sqlstream.specs import GroupAggregateSpec, JoinSpec, OverSpec, RankSpec

TABLES = """
CREATE TABLE a (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE b (k INT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
"""


def lifetimes(query: str, ttl: str = "5 s") -> list[int]:
    """The times to live of all state of the query, in seconds."""
    (plan,) = compile_script(f"{TABLES} {query};", {"table.exec.state.ttl": ttl})
    found: list[int] = []
    for node in walk_plan(plan.physical):
        match node.spec:
            case JoinSpec() as spec:
                found += [spec.left_ttl_ms, spec.right_ttl_ms]
            case GroupAggregateSpec() | RankSpec() | OverSpec() as spec if spec.state_ttl_ms:
                found.append(spec.state_ttl_ms)
    return [ms // 1000 for ms in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT /*+ STATE_TTL('a'='1 min', 'x'='2 h') */ * FROM a JOIN b AS x ON a.k = x.k", [60, 7200]),
        ("SELECT /*+ STATE_TTL('b'='0 s') */ * FROM a JOIN b USING (k)", [5, 0]),
        ("SELECT /*+ STATE_TTL('b'='9 s') */ * FROM a RIGHT JOIN b ON a.k = b.k", [9, 5]),
        ("SELECT /*+ STATE_TTL('c'='9 s') */ * FROM a JOIN b ON a.k = b.k JOIN a AS c ON b.w = c.v", [5, 5, 5, 9]),
        ("SELECT /*+ STATE_TTL('a'='9 s') */ a.* FROM a LEFT SEMI JOIN b ON a.k = b.k", [9, 5]),
        ("SELECT /*+ STATE_TTL('a'='9 s') */ a.k, COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k GROUP BY a.k", [9, 5, 5]),
        ("SELECT /*+ STATE_TTL('a'='1 min') */ k, COUNT(*) FROM a GROUP BY k HAVING COUNT(*) > 1", [60]),
        ("SELECT /*+ STATE_TTL('a'='1 min') */ DISTINCT k FROM a", [60]),
        ("SELECT /*+ STATE_TTL('t'='1 min') */ k, MAX(n) FROM (SELECT k, v, COUNT(*) AS n FROM a GROUP BY k, v) AS t"
         " GROUP BY k", [5, 60]),
        ("SELECT k, v FROM (SELECT /*+ STATE_TTL('a'='1 min') */ *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n"
         " FROM a) WHERE n <= 2", [60]),
        ("SELECT /*+ STATE_TTL('a'='1 min') */ k, SUM(v) OVER (PARTITION BY k ORDER BY v) FROM a", [60]),
    ],
)  # fmt: skip
def test_a_hint_is_about_the_state_of_its_table(query: str, expected: list[int]) -> None:
    assert lifetimes(query) == expected


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("SELECT /*+ STATE_TTL('aa'='1 d') */ k, COUNT(*) FROM a GROUP BY k", "SS4003", 'names "aa"'),
        ("SELECT /*+ STATE_TTL('a'='1 d', 'a'='2 d') */ k, COUNT(*) FROM a GROUP BY k", "SS1001", "twice"),
        ("SELECT /*+ STATE_TTL('a'='long') */ k, COUNT(*) FROM a GROUP BY k", "SS4002", 'not "long"'),
        ("SELECT /*+ STATE_TTL('a'='1 d') */ k FROM a", "SS3497", "has no use"),
        ("SELECT /*+ STATE_TTL('a'='1 d') */ * FROM a JOIN b ON a.k = b.k AND a.ts = b.ts", "SS3497", "an interval join"),
        ("SELECT /*+ STATE_TTL('a'='1 d') */ COUNT(*) FROM a GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "SS3497", "a window agg"),
    ],
)  # fmt: skip
def test_a_hint_without_use_is_refused_at_its_place(query: str, code: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        lifetimes(query)
    assert raised.value.code == code
    assert raised.value.span is not None
