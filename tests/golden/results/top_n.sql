CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');

SELECT page, id, price, place FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY price DESC, id) AS place FROM clicks
) WHERE place <= 3;
