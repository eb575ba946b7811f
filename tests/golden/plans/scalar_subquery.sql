CREATE TABLE clicks (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
SET 'parallelism.default' = '2';

SELECT v, (SELECT d.v FROM clicks AS d WHERE d.k = c.v), (SELECT v FROM clicks WHERE k = 1) FROM clicks AS c;
SELECT k, CASE WHEN v > 5 THEN (SELECT k FROM (SELECT k, MAX(v) AS m FROM clicks GROUP BY k) AS d WHERE d.m = c.v) END FROM clicks AS c;
