CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');
CREATE TABLE payments (who STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/payments.csv', 'format' = 'csv');

SELECT who, COUNT(*) AS n FROM (SELECT who, ts FROM clicks UNION ALL SELECT who, ts FROM payments) GROUP BY who;
SELECT who FROM clicks WHERE points > 10 UNION SELECT who FROM payments WHERE amount > 45;
