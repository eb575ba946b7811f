-- Rows that come more than ten seconds behind the others are late for windows that closed meanwhile.
CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/late_clicks.csv', 'format' = 'csv', 'csv.null-literal' = '',
  'scan.watermark.emit.strategy' = 'on-event');

SELECT window_start, COUNT(*) AS n, SUM(id) AS ids
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND))
GROUP BY window_start, window_end;
