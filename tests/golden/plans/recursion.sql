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
-- Queries that read each other over rows that only come.
WITH MUTUALLY RECURSIVE
  even (n INT) AS (SELECT 1 UNION SELECT d FROM odd JOIN links ON n = s),
  odd (n INT) AS (SELECT d FROM even JOIN links ON n = s)
SELECT n FROM even;
-- Values that get better, over rows that may go.
WITH MUTUALLY RECURSIVE near (n INT, t INT) AS (
  SELECT n, MIN(t) FROM (SELECT 1 AS n, 0 AS t UNION ALL SELECT d, t + 1 FROM near JOIN newest ON n = s) GROUP BY n)
SELECT n, t FROM near;
-- Rounds are kept.
WITH MUTUALLY RECURSIVE ways (n INT, c BIGINT) AS (
  SELECT n, SUM(c) FROM (SELECT 1 AS n, CAST(1 AS BIGINT) AS c UNION ALL SELECT d, c FROM ways JOIN newest ON n = s) GROUP BY n)
SELECT n, c FROM ways;
-- A query of all rows: one subtask.
WITH MUTUALLY RECURSIVE
  a (n INT) AS (SELECT 1 UNION SELECT d FROM a JOIN links ON n = s JOIN b ON c < 9),
  b (c BIGINT) AS (SELECT COUNT(*) FROM a)
SELECT n FROM a;
