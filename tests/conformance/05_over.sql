-- # OVER, Top-N and deduplication

-- : ROWS frame
SELECT name, SUM(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM emp;
-- : RANGE frame
SELECT id, SUM(qty) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) FROM orders;
-- : PARTITION BY
SELECT name, COUNT(*) OVER (PARTITION BY dept ORDER BY id) FROM emp;
-- : event time
SELECT id, SUM(qty) OVER (PARTITION BY item ORDER BY ts) FROM orders;
-- : processing time
SELECT id, COUNT(*) OVER (ORDER BY p) >= 1 FROM orders;
-- : following rows (not in Flink)
SELECT id, SUM(qty) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM orders;
-- : several windows in one SELECT (not in Flink)
SELECT id, SUM(qty) OVER (ORDER BY ts), MAX(qty) OVER (PARTITION BY item ORDER BY ts) FROM orders;
-- : WINDOW clause
SELECT name, MIN(salary) OVER w, MAX(salary) OVER w FROM emp WINDOW w AS (PARTITION BY dept ORDER BY id);
-- : LAG, LEAD
SELECT name, LAG(salary) OVER (ORDER BY id), LEAD(salary, 1, 0) OVER (ORDER BY id) FROM emp;
-- : FIRST_VALUE, LAST_VALUE, NTH_VALUE
SELECT name, FIRST_VALUE(name) OVER (ORDER BY id), NTH_VALUE(name, 2) OVER (ORDER BY id) FROM emp;
-- : RANK, DENSE_RANK
SELECT name, RANK() OVER (ORDER BY hired), DENSE_RANK() OVER (ORDER BY hired) FROM emp;
-- : NTILE, CUME_DIST, PERCENT_RANK
SELECT name, NTILE(2) OVER (ORDER BY id), CUME_DIST() OVER (ORDER BY id), PERCENT_RANK() OVER (ORDER BY id) FROM emp;
-- : Top-N by ROW_NUMBER
SELECT name FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC) AS n FROM emp) WHERE n <= 1;
-- : Top-N by RANK
SELECT name FROM (SELECT *, RANK() OVER (ORDER BY hired) AS n FROM emp) WHERE n <= 2;
-- : Top-N by DENSE_RANK
SELECT name FROM (SELECT *, DENSE_RANK() OVER (ORDER BY hired) AS n FROM emp) WHERE n <= 2;
-- : deduplication, first row
SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts) AS n FROM orders) WHERE n = 1;
-- : deduplication, last row
SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts DESC) AS n FROM orders) WHERE n = 1;
-- : OVER above GROUP BY
SELECT dept, SUM(SUM(salary)) OVER (ORDER BY dept) FROM emp GROUP BY dept;
