CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT n, COUNT(*) AS keys, MIN(best) AS least, MAX(best) AS most, COUNT(DISTINCT best) AS kinds FROM (
  SELECT who, page, COUNT(*) AS n, MAX(price) AS best FROM clicks GROUP BY who, page
) GROUP BY n;
SELECT who, n FROM (
  SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, who) AS place FROM (SELECT who, COUNT(*) AS n FROM clicks GROUP BY who)
) WHERE place <= 2;
SELECT COUNT(DISTINCT n, best) AS pairs FROM (SELECT who, COUNT(*) AS n, MAX(price) AS best FROM clicks GROUP BY who);
