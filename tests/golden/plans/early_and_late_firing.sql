CREATE TABLE clicks (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE totals (k BIGINT, h TIMESTAMP(3), c BIGINT, PRIMARY KEY (k, h) NOT ENFORCED) WITH ('connector' = 'upsert');
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '5 s';

INSERT INTO totals SELECT k, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end;

SET 'table.exec.emit.early-fire.enabled' = 'false';
SET 'table.exec.emit.late-fire.enabled' = 'true';
SET 'table.exec.emit.late-fire.delay' = '1 min';
SET 'table.exec.emit.allow-lateness' = '1 d';

SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS rn FROM (
    SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end))
WHERE rn <= 3;

SELECT k, window_start, COUNT(*)
FROM TABLE(SESSION(TABLE clicks PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY k, window_start, window_end;
