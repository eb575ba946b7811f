SELECT * FROM emp PIVOT (SUM(salary) FOR dept IN (SELECT id FROM dept))
-- instead: SELECT * FROM emp PIVOT (SUM(salary) FOR dept IN (10, 20 AS twenty))
SELECT COUNT(*) FROM (SELECT * FROM emp
SELECT * FROM emp JOIN dept
SELECT * FROM emp JOIN dept WHERE emp.dept = dept.id
SELECT * FROM emp INNER LEFT JOIN dept ON emp.dept = dept.id
SELECT * FROM emp OUTER JOIN dept ON emp.dept = dept.id
SELECT * FROM emp JOIN dept ON dept = id
-- instead: SELECT * FROM emp JOIN dept ON emp.dept = dept.id
SELECT id FROM emp JOIN dept ON emp.dept = dept.id
SELECT id FROM emp a JOIN emp b ON a.id = b.id
SELECT * FROM emp JOIN dept USING (dept)
SELECT * FROM emp JOIN dept USING id
-- instead: SELECT * FROM emp JOIN dept USING (id)
SELECT * FROM emp JOIN dept USING ()
SELECT * FROM emp CROSS JOIN dept ON emp.dept = dept.id
SELECT * FROM emp JOIN dept ON emp.dept = dept.nosuch
SELECT * FROM emp JOIN dept ON emp.dept = dept.city
SELECT * FROM emp JOIN dept ON emp.dept
SELECT * FROM emp JOIN dept ON 1
SELECT * FROM emp LEFT INNER JOIN dept ON TRUE
SELECT * FROM emp RIGHT SEMI JOIN dept ON TRUE
SELECT * FROM emp ASOF LEFT JOIN dept USING (id)
SELECT emp.name, t.s FROM emp POSITIONAL JOIN t
-- instead: SELECT e.name, u.s FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY id) AS n FROM emp) e JOIN (SELECT s, ROW_NUMBER() OVER (ORDER BY k) AS n FROM t) u ON e.n = u.n
SELECT * FROM emp ASOF JOIN dept ON emp.id >= dept.id
SELECT * FROM emp CROSS APPLY dept
-- instead: SELECT * FROM emp CROSS JOIN LATERAL (SELECT * FROM dept WHERE dept.id = emp.dept) AS d
SELECT * FROM emp WHERE EXISTS (dept)
SELECT * FROM emp WHERE id IN (SELECT id, name FROM emp)
SELECT * FROM emp WHERE id = (SELECT id, name FROM emp)
SELECT * FROM emp WHERE id IN (SELECT name FROM emp)
SELECT * FROM emp WHERE (id, name) IN (SELECT id FROM emp)
SELECT * FROM emp WHERE id > (SELECT nosuch FROM dept)
WITH a AS SELECT 1 SELECT * FROM a
-- instead: WITH a AS (SELECT 1) SELECT * FROM a
WITH a (SELECT 1) SELECT * FROM a
-- instead: WITH a AS (SELECT 1) SELECT * FROM a
WITH a AS (SELECT 1)
WITH a AS (SELECT 1), SELECT * FROM a
WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a
WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a
WITH a(x, y) AS (SELECT 1) SELECT * FROM a
WITH a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a WHERE x < 5) SELECT * FROM a
-- instead: WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a WHERE x < 5) SELECT * FROM a
WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a
-- instead: WITH a AS (SELECT 1) SELECT * FROM a
SELECT * FROM UNNEST([1,2])
SELECT * FROM UNNEST(1)
SELECT * FROM UNNEST(ARRAY[1]) AS u(a, b)
SELECT UNNEST(tags) FROM orders
SELECT * FROM orders LATERAL VIEW EXPLODE(tags) x AS y
-- instead: SELECT * FROM orders CROSS JOIN UNNEST(tags) AS x (y)
SELECT * FROM orders CROSS JOIN tags
SELECT * FROM emp JOIN LATERAL (SELECT * FROM dept WHERE id = emp.dept) d
-- instead: SELECT * FROM emp JOIN LATERAL (SELECT * FROM dept WHERE id = emp.dept) d ON TRUE
SELECT * FROM emp, (SELECT * FROM dept WHERE dept.id = emp.dept) d
-- instead: SELECT * FROM emp, LATERAL (SELECT * FROM dept WHERE dept.id = emp.dept) d
SELECT * FROM emp UNPIVOT (x FOR y IN (a, b))
SELECT * FROM emp PIVOT (SUM(salary) FOR dept IN (10, 20)
SELECT * FROM emp PIVOT (salary FOR dept IN (10, 20))
SELECT * FROM emp PIVOT (SUM(salary) FOR nosuch IN (10, 20))
SELECT * FROM emp PIVOT (SUM(salary) IN (10, 20))
SELECT * FROM emp PIVOT (SUM(salary) FOR dept IN (10, 10))
SELECT dept, COUNT(*) FROM emp GROUP BY dept WITH ROLLUP
-- instead: SELECT dept, COUNT(*) FROM emp GROUP BY ROLLUP (dept)
SELECT * FROM orders FOR SYSTEM_TIME AS OF p
SELECT * FROM orders o JOIN emp FOR SYSTEM_TIME AS OF o.p AS e ON o.id = e.id
SELECT * FROM orders o JOIN emp FOR SYSTEM_TIME AS OF o.ts AS e ON o.id = e.id
SELECT * FROM orders o JOIN emp AS e FOR SYSTEM_TIME AS OF o.p ON o.id = e.id
SELECT * FROM orders o JOIN emp FOR SYSTEM_TIME AS OF o.id AS e ON o.id = e.id
SELECT * FROM emp WITH (NOLOCK)
-- instead: SELECT * FROM emp /*+ OPTIONS('source.monitor-interval' = '1 s') */
SELECT id FROM emp START WITH mgr IS NULL CONNECT BY PRIOR id = mgr
CREATE TABLE rates (k INT, r INT, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='nowhere/r', 'format'='json', 'changelog.mode'='upsert'); SELECT o.id, x.r FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS x ON o.id = x.k
-- instead: CREATE TABLE versions (k INT, r INT, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='nowhere/r', 'format'='json'); SELECT o.id, x.r FROM orders o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS x ON o.id = x.k
SELECT o.id FROM orders o JOIN SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at)) AS r ON o.id = r.k
SELECT * FROM LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at)) AS r
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(r)) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(att)) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => at) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at)) AS r ON o.id > r.k
SELECT o.id FROM orders o FULL JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at)) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(on_time => DESCRIPTOR(at)) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, until => DESCRIPTOR(at)) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at), load_completed_time => 7) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at), load_completed_time => o.ts) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at), state_ttl => 7) AS r ON o.id = r.k
SELECT o.id FROM orders o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at), load_completed_idle_timeout => INTERVAL '0' SECOND) AS r ON o.id = r.k
SELECT o.n FROM (SELECT id, COUNT(*) AS n FROM orders GROUP BY id) o JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(at)) AS r ON o.id = r.k
