"""Queries of several kinds of state in one job, or of event time, and tables in which no row is late."""

from __future__ import annotations

import random

from oracle import ChangedRows, Row, Tables

ROWS = 600
CHANGES = 500
STEP_S = 0.7
"""Between two rows."""


def _at(seconds: float) -> str:
    return f"2024-01-01 00:{int(seconds) // 60:02d}:{seconds % 60:06.3f}"


def _changes(fate: random.Random) -> ChangedRows:
    """Rows that come and go again within a time that the watermark waits."""
    made: list[Row] = []
    there: dict[int, tuple[int, Row]] = {}
    for place in range(CHANGES):
        key = fate.randrange(60)
        born, row = there.get(key, (place, ()))
        if row and place - born <= 110:
            if fate.random() < 0.6:
                del there[key]
                made.append(("-D", *row))
            continue
        row = (key, fate.randrange(100), f"g{key % 4}", _at(place * STEP_S))
        there[key] = place, row
        made.append(("+I", *row))
    return ChangedRows(made, "retract")


def _tables() -> Tables:
    fate = random.Random(5)
    bids: list[Row] = [
        (i, f"c{fate.randrange(6)}", fate.randrange(100), fate.choice("ABC"), _at(i * STEP_S + fate.random()))
        for i in range(ROWS)
    ]
    times = sorted(_at(fate.random() * 400) for _ in range(60))
    rates: list[Row] = [(fate.choice("ABC"), fate.randrange(1, 9), time) for time in times]
    clicks: list[Row] = [
        (i, f"c{fate.randrange(8)}", fate.randrange(50), _at(i * STEP_S + fate.random() * 3))
        for i in range(ROWS)
    ]
    return {
        "clicks": (
            "id INT, who STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND",
            clicks,
        ),
        "bids": (
            "id INT, who STRING, amount INT, currency STRING, ts TIMESTAMP(3),"
            " WATERMARK FOR ts AS ts - INTERVAL '2' SECOND",
            bids,
        ),
        "rates": (
            "currency STRING, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND,"
            " PRIMARY KEY (currency) NOT ENFORCED",
            rates,
        ),
        "changes": (
            "k INT, v INT, g STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '100' SECOND",
            _changes(fate),
        ),
    }


TABLES = _tables()

EVENT_TIME: dict[str, str] = {
    "windows_of_windows": """
        SELECT window_start, window_end, MAX(c) AS m, COUNT(*) AS k, SUM(d) AS d FROM (
          SELECT who, window_start, window_end, COUNT(*) AS c, COUNT(DISTINCT n) AS d
          FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))
          GROUP BY who, window_start, window_end)
        GROUP BY window_start, window_end""",
    "hops": """
        SELECT window_start, window_end, who, COUNT(*) AS c, MIN(n) AS m
        FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '20' SECOND))
        GROUP BY who, window_start, window_end""",
    "windows_of_several_tables": """
        SELECT window_start, window_end, who, COUNT(*) AS c, SUM(v) AS s FROM TABLE(CUMULATE(
          (SELECT who, n AS v, ts FROM clicks UNION ALL SELECT who, amount AS v, ts FROM bids),
          DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND))
        GROUP BY window_start, window_end, who""",
    "sessions": """
        SELECT window_start, window_end, who, COUNT(*) AS c, SUM(n) AS s
        FROM TABLE(SESSION(TABLE clicks PARTITION BY who, DESCRIPTOR(ts), INTERVAL '6' SECOND))
        GROUP BY window_start, window_end, who""",
    "interval_join": """
        SELECT b.id, c.id AS cid FROM bids b FULL JOIN clicks c ON b.who = c.who AND b.amount > c.n
          AND c.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '3' SECOND""",
    "window_join": """
        SELECT b.id, c.id AS cid, b.window_end
        FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '4' SECOND))) b
        LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '4' SECOND))) c
        ON b.who = c.who AND b.window_start = c.window_start AND b.window_end = c.window_end""",
    "join_with_broadcast_windows": """
        SELECT b.id, h.high FROM bids b JOIN (
          SELECT window_end AS at, MAX(n) AS high FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '4' SECOND))
          GROUP BY window_start, window_end) h
        ON b.ts BETWEEN h.at AND h.at + INTERVAL '5' SECOND AND b.amount > h.high - 12""",
    "top_n": """
        SELECT who, id, amount FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY amount DESC, id) AS rn FROM bids) WHERE rn <= 4""",
    "window_top_n": """
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, who) AS n FROM (
          SELECT window_start, window_end, who, SUM(amount) AS s
          FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))
          GROUP BY window_start, window_end, who)) WHERE n <= 2""",
    "over": """
        SELECT id, who, COUNT(*) OVER (PARTITION BY who ORDER BY ts ROWS 3 PRECEDING) AS c,
          SUM(amount) OVER (PARTITION BY who ORDER BY ts RANGE INTERVAL '5' SECOND PRECEDING) AS s
        FROM bids""",
    "join_of_aggregates": """
        SELECT a.who, a.c, b.m FROM (SELECT who, COUNT(*) AS c FROM clicks GROUP BY who) a
        LEFT JOIN (SELECT who, MAX(amount) AS m FROM bids GROUP BY who) b ON a.who = b.who""",
}

_CONVERTED = (
    "(SELECT b.id, b.who, b.amount * r.rate AS v, b.ts AS ts FROM bids b"
    " JOIN rates FOR SYSTEM_TIME AS OF b.ts AS r ON b.currency = r.currency)"
)

COMBINED: dict[str, str] = {
    "match_behind_temporal_join": f"""
        SELECT * FROM {_CONVERTED} MATCH_RECOGNIZE (
          PARTITION BY who ORDER BY ts
          MEASURES A.id AS a, LAST(B.id) AS b, C.v AS v, COUNT(B.id) AS n
          ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
          PATTERN (A B+ C) DEFINE B AS B.v < A.v, C AS C.v >= A.v)""",
    "over_behind_temporal_join": f"""
        SELECT id, who, SUM(v) OVER (PARTITION BY who ORDER BY ts ROWS 5 PRECEDING) AS s,
          LAG(v, 2) OVER (PARTITION BY who ORDER BY ts) AS l
        FROM {_CONVERTED}""",
    "window_top_n_of_changes": """
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC, g) AS n FROM (
            SELECT window_start, window_end, g, SUM(v) AS s
            FROM TABLE(TUMBLE(TABLE changes, DESCRIPTOR(ts), INTERVAL '30' SECOND))
            GROUP BY window_start, window_end, g)
        ) WHERE n <= 2""",
    "sessions_of_changes": """
        SELECT window_start, window_end, g, COUNT(*) AS c, SUM(v) AS s
        FROM TABLE(SESSION(TABLE changes PARTITION BY g, DESCRIPTOR(ts), INTERVAL '4' SECOND))
        GROUP BY window_start, window_end, g""",
    "over_of_changes": """
        SELECT k, g, v, SUM(v) OVER (PARTITION BY g ORDER BY v, k) AS s, RANK() OVER (PARTITION BY g ORDER BY v) AS r,
          SUM(v) OVER (PARTITION BY g ORDER BY v, k ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS w
        FROM changes""",
    "aggregates_of_changes": """
        SELECT g, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l, MIN(v) AS m, COUNT(DISTINCT v) AS d FROM changes GROUP BY g""",
    "subqueries_of_changes": """
        SELECT id, amount NOT IN (SELECT v FROM changes) AS x, EXISTS (SELECT 1 FROM changes WHERE v = amount) AS e FROM bids""",
}
