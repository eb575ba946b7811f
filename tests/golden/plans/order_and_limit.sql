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

SELECT origin FROM flights ORDER BY delay LIMIT 5;
SELECT k FROM clicks LIMIT 3;
SELECT k FROM clicks ORDER BY v DESC LIMIT 3;
