CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');
CREATE TABLE payments (who STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/payments.csv', 'format' = 'csv');

SELECT c.id, p.amount, p.ts FROM clicks AS c JOIN payments AS p
ON c.who = p.who AND p.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND;
SELECT p.who, p.ts, c.id FROM payments AS p LEFT JOIN clicks AS c
ON c.who = p.who AND c.ts BETWEEN p.ts - INTERVAL '2' SECOND AND p.ts + INTERVAL '1' SECOND AND c.page = 'pay';
