-- One file, so one order of rows.
CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/late_clicks.csv', 'format' = 'csv', 'csv.null-literal' = '');

SELECT who, FIRST_VALUE(page) AS first_page, LAST_VALUE(id) AS last_id, LISTAGG(page, '>') AS pages
FROM clicks GROUP BY who;
