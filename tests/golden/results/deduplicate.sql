CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT who, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY ts) AS n FROM clicks) WHERE n = 1;
SELECT page, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ts DESC) AS n FROM clicks) WHERE n = 1;
