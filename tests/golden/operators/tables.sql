CREATE TABLE s (k BIGINT, v BIGINT, n STRING, d DECIMAL(10, 2), x DOUBLE, p AS PROCTIME(), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'stream');
CREATE TABLE b (k BIGINT, v BIGINT NOT NULL, n STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'table');
CREATE TABLE x (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'table', 'scan.watermark.emit.strategy' = 'on-event');
CREATE TABLE f (k BIGINT, v BIGINT, n STRING) WITH ('connector' = 'filtering');
CREATE TABLE g (k BIGINT, v BIGINT, n STRING) WITH ('connector' = 'exact', 'scan.parallelism' = '3');
CREATE TABLE c (k BIGINT, n STRING, w DOUBLE, active BOOLEAN, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'keyed');
CREATE TABLE once (k BIGINT, n STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'keyed', 'lookup.cache' = 'FULL');
CREATE TABLE nano (k BIGINT, ts TIMESTAMP(6), z TIMESTAMP_LTZ(3), WATERMARK FOR z AS z) WITH ('connector' = 'stream');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE lines (k BIGINT, c BIGINT) WITH ('connector' = 'append');
CREATE TABLE totals (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert', 'sink.parallelism' = '3');
CREATE TABLE single (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert', 'sink.parallelism' = '1');
CREATE TABLE keyless (k BIGINT, c BIGINT) WITH ('connector' = 'upsert');
CREATE TABLE replaced (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole', 'sink.parallelism' = '4');
