CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT id, points, page FROM clicks ORDER BY points DESC, page, id LIMIT 7 OFFSET 2;
SELECT who, COUNT(*) AS n FROM clicks GROUP BY who ORDER BY n DESC, who;
