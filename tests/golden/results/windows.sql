CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT window_start, window_end, page, COUNT(*) AS n, SUM(points) AS total
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '20' SECOND))
GROUP BY window_start, window_end, page;
SELECT window_start, window_end, COUNT(*) AS n, MAX(price) AS dearest
FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '40' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(DISTINCT who) AS people
FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
SELECT who, window_start, window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE clicks PARTITION BY who, DESCRIPTOR(ts), INTERVAL '8' SECOND)) GROUP BY who, window_start, window_end;
