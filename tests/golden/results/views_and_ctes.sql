CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

CREATE VIEW cheap AS SELECT * FROM clicks WHERE price < 50;
CREATE VIEW per_page (page, n) AS SELECT page, COUNT(*) FROM cheap GROUP BY page;
WITH dear AS (SELECT page, COUNT(*) AS n FROM clicks WHERE price >= 50 GROUP BY page)
SELECT p.page, p.n AS cheap, d.n AS dear FROM per_page AS p LEFT JOIN dear AS d ON p.page = d.page;
