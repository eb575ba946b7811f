-- What a table of changes holds when a row comes, behind the watermark of the rows alone; without columns that nobody reads.

CREATE TABLE transfers (id INT, currency STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE rates (currency STRING, rate INT, note STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'rates', 'format' = 'csv', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op');

SELECT window_start, SUM(rate) AS rates FROM TABLE(TUMBLE(TABLE (
  SELECT t.ts, r.rate FROM transfers AS t JOIN LATERAL SNAPSHOT(
    input => TABLE rates, on_time => DESCRIPTOR(at), load_completed_time => TIMESTAMP '2026-01-01 00:00:00',
    load_completed_idle_timeout => INTERVAL '1' MINUTE, state_ttl => INTERVAL '7' DAY) AS r
  ON UPPER(t.currency) = r.currency AND r.rate > 0 AND t.id < r.rate), DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
