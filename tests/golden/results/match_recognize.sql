CREATE TABLE ticker (symbol STRING, ts TIMESTAMP(3), price INT, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/ticker.csv', 'format' = 'csv');

SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    FIRST(fall.ts) AS start_ts,
    LAST(fall.price) AS bottom,
    AVG(fall.price) AS average,
    MATCH_ROWTIME() AS end_ts
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO LAST rise
  PATTERN (fall{2,} rise) WITHIN INTERVAL '1' HOUR
  DEFINE
    fall AS fall.price < LAST(fall.price, 1) OR LAST(fall.price, 1) IS NULL,
    rise AS rise.price > LAST(fall.price)
) AS dips;

SELECT ts, price, c, n, so_far, total, before FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES CLASSIFIER() AS c, MATCH_NUMBER() AS n, SUM(price) AS so_far, FINAL SUM(price) AS total, PREV(price) AS before
  ALL ROWS PER MATCH WITH UNMATCHED ROWS
  PATTERN (start {- fall+ -} rise+)
  DEFINE fall AS price < PREV(price), rise AS price > PREV(price)
);

SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(a.price) AS a, b.price AS b, COUNT(u.*) AS n
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (PERMUTE(a, b) c*? d)
  SUBSET u = (a, b, c)
  DEFINE a AS price >= 19, b AS price < 19, d AS d.price - LAST(a.price) > 3
);
