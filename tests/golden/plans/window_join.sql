CREATE TABLE flights (carrier STRING, origin STRING, delay DOUBLE, scheduled TIMESTAMP(3),
  WATERMARK FOR scheduled AS scheduled - INTERVAL '1' HOUR)
WITH ('connector' = 'table', 'scan.watermark.emit.strategy' = 'on-event');
CREATE TABLE weather (origin STRING, temperature DOUBLE, observed TIMESTAMP(3), WATERMARK FOR observed AS observed)
WITH ('connector' = 'table');
CREATE TABLE clicks (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE totals (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert');
CREATE TABLE lines (k BIGINT, c BIGINT) WITH ('connector' = 'append');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
SET 'parallelism.default' = '2';

SELECT a.origin, a.window_start, n, warmest
FROM (SELECT origin, window_start, window_end, count(*) AS n
      FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(scheduled), INTERVAL '1' HOUR))
      GROUP BY origin, window_start, window_end) a
LEFT JOIN (SELECT origin, window_start, window_end, max(temperature) AS warmest
      FROM TABLE(TUMBLE(TABLE weather, DESCRIPTOR(observed), INTERVAL '1' HOUR))
      GROUP BY origin, window_start, window_end) b
ON a.origin = b.origin AND a.window_start = b.window_start AND a.window_end = b.window_end;
