"""The families of operators that `main.py operators` measures: a statement each, and what it is fed."""

from __future__ import annotations

from dataclasses import dataclass

TABLES = """
CREATE TABLE rows_in (id BIGINT, k BIGINT, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'rows', 'format' = 'json');
CREATE TABLE others (id BIGINT, k BIGINT, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = 'others', 'format' = 'json');
CREATE TABLE versions (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'versions', 'format' = 'json');
CREATE TABLE changes (id BIGINT, k BIGINT, v BIGINT, s STRING, ts TIMESTAMP(3))
  WITH ('connector' = 'filesystem', 'path' = 'changes', 'format' = 'debezium-json');
CREATE TABLE endless_changes (id BIGINT, k BIGINT, v BIGINT, s STRING, ts TIMESTAMP(3))
  WITH ('connector' = 'filesystem', 'path' = 'changes', 'format' = 'debezium-json', 'source.monitor-interval' = '1 s');
"""

_WINDOW = "FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"


@dataclass(frozen=True)
class Family:
    """`text` is planned; the operators between its sources and its sink are measured.

    `other_side` says what the second input gets: nothing but one row of each key before the measurement, or as many rows as
    the first. `rows_per_key`: how many rows of each key come before the measurement. `key_interval`: event time passes 10 s while
    each key gets one row; else the least of that and of 1,000,000 rows a 10 s. Families without `has_keys` get one row a second,
    and are measured once, whatever the number of keys. `is_skewable` is False where a frequent key has as
    many results as the square of its rows.
    """

    text: str
    other_side: str = ""
    rows_per_key: int = 1
    key_interval: bool = False
    has_keys: bool = True
    is_skewable: bool = True


def _of_seconds(window: str, sizes: str, calls: str = "COUNT(*), SUM(v)") -> Family:
    """Windows that end every second, each with one new row: as many results as rows."""
    table = f"TABLE({window}(TABLE rows_in, DESCRIPTOR(ts), {sizes}))"
    text = f"SELECT {calls}, window_start, window_end FROM {table} GROUP BY window_start, window_end"
    return Family(text, has_keys=False)


DIMENSION, STREAM = "dimension", "stream"


def _top(table: str, order: str, most: int) -> str:
    return (
        f"SELECT id, k, v, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n"
        f" FROM {table}) WHERE n <= {most}"
    )


FAMILIES: dict[str, Family] = {
    "aggregate": Family("SELECT k, COUNT(*), SUM(v), AVG(v) FROM rows_in GROUP BY k"),
    "aggregate-retract": Family("SELECT k, COUNT(*), SUM(v), AVG(v) FROM changes GROUP BY k"),
    "max": Family("SELECT k, MIN(v), MAX(v) FROM rows_in GROUP BY k"),
    "max-retract": Family("SELECT k, MAX(v) FROM changes GROUP BY k"),
    "max-text-retract": Family("SELECT k, MAX(s) FROM changes GROUP BY k"),
    "first-value-retract": Family("SELECT k, FIRST_VALUE(v) FROM changes GROUP BY k"),
    "last-value-text-retract": Family("SELECT k, LAST_VALUE(s) FROM changes GROUP BY k"),
    "distinct": Family("SELECT k, COUNT(DISTINCT v) FROM rows_in GROUP BY k"),
    "distinct-retract": Family("SELECT k, COUNT(DISTINCT v) FROM changes GROUP BY k"),
    "listagg-retract": Family("SELECT k, LISTAGG(s) FROM changes GROUP BY k"),
    "array-agg-retract": Family("SELECT k, ARRAY_AGG(v) FROM changes GROUP BY k"),
    "window": Family(f"SELECT k, COUNT(*), SUM(v) {_WINDOW}"),
    "window-listagg": Family(f"SELECT k, LISTAGG(s) {_WINDOW}"),
    "window-array-agg": Family(f"SELECT k, ARRAY_AGG(v) {_WINDOW}"),
    "window-hop": Family(
        "SELECT k, COUNT(*), SUM(v) FROM TABLE(HOP(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '2' SECOND,"
        " INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "seconds-tumble": _of_seconds("TUMBLE", "INTERVAL '1' SECOND"),
    "seconds-hop": _of_seconds("HOP", "INTERVAL '1' SECOND, INTERVAL '1' MINUTE"),
    "seconds-cumulate": _of_seconds("CUMULATE", "INTERVAL '1' SECOND, INTERVAL '1' DAY"),
    "seconds-cumulate-distinct": _of_seconds(
        "CUMULATE", "INTERVAL '1' SECOND, INTERVAL '1' DAY", "COUNT(DISTINCT v)"
    ),
    "window-session": Family(
        "SELECT k, COUNT(*), SUM(v) FROM TABLE(SESSION(TABLE rows_in PARTITION BY k, DESCRIPTOR(ts),"
        " INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "join": Family(
        "SELECT r.id, r.v, o.v, o.s FROM rows_in r JOIN others o ON r.k = o.k", DIMENSION, rows_per_key=1
    ),
    "join-retract": Family("SELECT c.id, c.v, o.v, o.s FROM changes c JOIN others o ON c.k = o.k", DIMENSION),
    "left-join-retract": Family(
        "SELECT c.id, c.v, o.v, o.s FROM changes c LEFT JOIN others o ON c.k = o.k", DIMENSION
    ),
    "interval-join": Family(
        "SELECT r.id, r.v, o.v, o.s FROM rows_in r JOIN others o ON r.k = o.k"
        " AND o.ts BETWEEN r.ts - INTERVAL '5' SECOND AND r.ts + INTERVAL '5' SECOND",
        STREAM,
        key_interval=True,
        is_skewable=False,
    ),
    "temporal-join": Family(
        "SELECT r.id, r.v, o.v FROM rows_in r JOIN versions FOR SYSTEM_TIME AS OF r.ts AS o ON r.k = o.k",
        STREAM,
        key_interval=True,
    ),
    "over": Family(
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM rows_in"
    ),
    "over-running": Family("SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM rows_in"),
    "over-retract": Family(
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM endless_changes"
    ),
    "over-running-retract": Family(
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY id) FROM endless_changes"
    ),
    "over-rank-retract": Family("SELECT id, RANK() OVER (PARTITION BY k ORDER BY v) FROM endless_changes"),
    "top": Family(_top("rows_in", "v DESC", 10), rows_per_key=2),
    "top-retract": Family(_top("changes", "v DESC", 10)),
    "deduplicate-first": Family(_top("rows_in", "ts", 1)),
    "deduplicate-last": Family(_top("rows_in", "ts DESC", 1)),
    "match": Family(
        "SELECT * FROM rows_in MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts"
        " MEASURES A.v AS a, LAST(B.v) AS b, C.v AS c ONE ROW PER MATCH PATTERN (A B+ C)"
        " DEFINE B AS B.v > A.v, C AS C.v < A.v)"
    ),
    "match-open": Family(
        "SELECT * FROM rows_in MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts"
        " MEASURES A.v AS a, LAST(B.v) AS b, C.v AS c ONE ROW PER MATCH PATTERN (A B* C)"
        " DEFINE A AS A.v < 100000, B AS B.v >= A.v - 99000, C AS C.v < A.v - 99000)"
    ),
}
"""By the name that --only takes."""
