CREATE TABLE links (s INT, d INT, w INT) WITH ('connector' = 'stream');
CREATE VIEW newest AS SELECT s, MAX(d) AS d FROM links GROUP BY s;

-- Rows that only come: no rounds are kept.
SELECT * FROM (WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT d FROM r JOIN links ON n = s) SELECT n FROM r);
-- Rows that may go: each keeps its round.
WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT d FROM r JOIN newest ON n = s) SELECT n FROM r;
-- A row is gone as often as it came: no rounds are kept.
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT d FROM r JOIN newest ON n = s) SELECT n FROM r;
-- The rows of a round are grouped: they have their round.
WITH RECURSIVE r (n, t) AS (SELECT 1, 0 UNION ALL SELECT d, MIN(t + w) FROM r JOIN links ON n = s GROUP BY d) SELECT n, t FROM r;
-- A step that reads all rows of a round: one subtask.
WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT d FROM r JOIN links ON n < s) SELECT n FROM r;
