CREATE TABLE clicks (k BIGINT, v BIGINT, w STRING, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'stream');
CREATE TABLE totals (k BIGINT, n BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'append');
CREATE VIEW pairs AS SELECT * FROM clicks MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts MEASURES MATCH_ROWTIME() AS at, COUNT(a.*) AS n
  AFTER MATCH SKIP TO NEXT ROW PATTERN ((a | {- b -}) c{2,3}?) WITHIN INTERVAL '1' MINUTE DEFINE a AS v > 1, c AS c.v > LAST(a.v)
) AS m;

-- A window over the time of the match.
INSERT INTO totals SELECT k, SUM(n), window_end FROM TABLE(TUMBLE(TABLE pairs, DESCRIPTOR(at), INTERVAL '1' HOUR))
GROUP BY k, window_start, window_end;

-- Without a partition, by arrival; columns that nothing reads are not read.
INSERT INTO totals SELECT v, n, CAST(ts AS TIMESTAMP(3)) FROM clicks MATCH_RECOGNIZE (
  ORDER BY p MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH PATTERN (PERMUTE(a, b)) DEFINE a AS v > 1);
