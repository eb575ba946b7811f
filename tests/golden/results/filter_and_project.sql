CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT id, UPPER(who) AS who, points * 2 AS doubled, price / 3 AS third, CASE WHEN points > 5 THEN page END AS page
FROM clicks WHERE points >= 4 OR price < 1;
SELECT id, DATE_FORMAT(ts, 'HH:mm:ss') AS at_time, SUBSTRING(page, 2, 2) AS part, CAST(price AS INT) AS whole,
  points BETWEEN 2 AND 4 AS is_middling FROM clicks WHERE id <= 12;
