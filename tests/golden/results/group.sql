CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT who, COUNT(*) AS clicks, COUNT(points) AS rated, SUM(points) AS total, AVG(price) AS mean, MIN(ts) AS first_at
FROM clicks GROUP BY who;
SELECT COUNT(*) AS clicks, COUNT(DISTINCT page) AS pages, SUM(price) FILTER (WHERE page = 'pay') AS paid FROM clicks;
SELECT page, SUM(points) AS total FROM clicks GROUP BY page HAVING SUM(points) > 60;
SELECT DISTINCT who, page FROM clicks WHERE points > 7;
SELECT COUNT(DISTINCT who, page) AS pairs, COUNT(DISTINCT who, page, points) FILTER (WHERE price > 1) AS triples FROM clicks;
SELECT page, LISTAGG(DISTINCT who, '+') AS people FROM clicks WHERE who = 'ann' OR who IS NULL GROUP BY (page);
