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

SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY late DESC) AS place
  FROM (
    SELECT carrier, window_start, window_end, avg(delay * 2) AS late, count(*) AS n
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(scheduled), INTERVAL '1' DAY))
    WHERE carrier <> 'XX'
    GROUP BY carrier, window_start, window_end
    HAVING count(*) > 3))
WHERE place <= 3;
