CREATE TABLE links (s INT, d INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'data/links.csv', 'format' = 'csv', 'csv.null-literal' = '');

CREATE VIEW counted AS
SELECT s, d, window_start, COUNT(*) AS n FROM TUMBLE(TABLE links, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY s, d, window_start, window_end;
CREATE VIEW last_links AS
SELECT s, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ts DESC) AS i FROM links) WHERE i = 1;

WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE FALSE AND NOT EXISTS (SELECT 1 FROM links WHERE s = n) UNION SELECT d FROM r JOIN links ON s = n) SELECT n FROM r;
WITH RECURSIVE r (n, k) AS (SELECT 1, CAST(0 AS BIGINT) UNION SELECT d, c.n FROM r JOIN counted AS c ON s = r.n) SELECT * FROM r;
WITH RECURSIVE r (n, k) AS (SELECT s, 0 FROM links UNION ALL SELECT d, k + 1 FROM r JOIN last_links ON s = n WHERE k < 4) SELECT n, k, COUNT(*) AS ways FROM r GROUP BY n, k;
WITH MUTUALLY RECURSIVE r (n INT) AS (SELECT 1 UNION SELECT d FROM r JOIN links ON s = n) SELECT n FROM r;
