CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');
CREATE TABLE payments (who STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/payments.csv', 'format' = 'csv');

SELECT c.window_start, c.who, c.n, p.total FROM (
  SELECT window_start, window_end, who, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, who
) AS c LEFT JOIN (
  SELECT window_start, window_end, who, SUM(amount) AS total
  FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end, who
) AS p ON c.who = p.who AND c.window_start = p.window_start AND c.window_end = p.window_end;
