SELECT * FROM emp
SELECT DISTINCT dept FROM emp
SELECT name, salary FROM emp WHERE salary BETWEEN 900 AND 1500 ORDER BY salary DESC, name LIMIT 3
SELECT name FROM emp WHERE name LIKE '_e%' OR name IN ('Bob','Cid')
SELECT name FROM emp WHERE dept IS NULL OR NOT (salary > 1000)
SELECT dept, COUNT(*), SUM(salary), AVG(CAST(salary AS DOUBLE)), MIN(name), MAX(hired) FROM emp GROUP BY dept
SELECT dept, COUNT(DISTINCT salary) FROM emp GROUP BY dept HAVING COUNT(*) > 1
SELECT COUNT(*) FILTER (WHERE salary > 1000) FROM emp
SELECT e.name, d.dname FROM emp e JOIN dept d ON e.dept = d.id
SELECT e.name, d.dname FROM emp e LEFT JOIN dept d ON e.dept = d.id
SELECT e.name, d.dname FROM emp e RIGHT JOIN dept d ON e.dept = d.id
SELECT e.name, d.dname FROM emp e FULL OUTER JOIN dept d ON e.dept = d.id
SELECT e.name, d.dname FROM emp e CROSS JOIN dept d
SELECT e.name, d.dname FROM emp e, dept d WHERE e.dept = d.id AND d.city = 'Rome'
SELECT a.name, b.name FROM emp a JOIN emp b ON a.salary < b.salary AND a.dept = b.dept
SELECT a.name, b.name FROM emp a LEFT JOIN emp b ON a.salary < b.salary
SELECT a.name, b.name FROM emp a FULL JOIN emp b ON a.mgr = b.id AND b.salary > 1000
SELECT * FROM t NATURAL JOIN (SELECT k, COUNT(*) AS c FROM t GROUP BY k) x
SELECT name FROM emp WHERE dept IN (SELECT id FROM dept WHERE city IS NOT NULL)
SELECT name FROM emp WHERE dept NOT IN (SELECT id FROM dept)
SELECT name FROM emp WHERE dept NOT IN (SELECT dept FROM emp WHERE salary < 800)
SELECT name FROM emp WHERE dept NOT IN (SELECT dept FROM emp WHERE dept IS NOT NULL AND salary < 1000)
SELECT dname FROM dept d WHERE EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id)
SELECT dname FROM dept d WHERE NOT EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id AND e.salary > 1000)
SELECT name FROM emp WHERE salary > (SELECT AVG(CAST(salary AS DOUBLE)) FROM emp)
SELECT name, (SELECT dname FROM dept d WHERE d.id = e.dept) FROM emp e
SELECT name, (SELECT COUNT(*) FROM emp b WHERE b.mgr = a.id) AS reports FROM emp a
SELECT name FROM emp e WHERE salary = (SELECT MAX(salary) FROM emp x WHERE x.dept = e.dept)
SELECT name FROM emp WHERE salary >= ALL (SELECT salary FROM emp)
SELECT name FROM emp WHERE salary > ANY (SELECT salary FROM emp WHERE dept = 20)
SELECT name FROM emp WHERE (dept, salary) IN (SELECT dept, MAX(salary) FROM emp GROUP BY dept)
SELECT dept FROM emp UNION SELECT id FROM dept
SELECT dept FROM emp UNION ALL SELECT id FROM dept
SELECT dept FROM emp INTERSECT SELECT id FROM dept
SELECT dept FROM emp EXCEPT SELECT id FROM dept
SELECT g FROM t INTERSECT ALL SELECT g FROM t WHERE k > 2
SELECT g FROM t EXCEPT ALL SELECT g FROM t WHERE k > 4
SELECT dept, city, SUM(salary) FROM emp JOIN dept ON emp.dept = dept.id GROUP BY GROUPING SETS ((dept), (city), ())
SELECT dept, salary, COUNT(*) FROM emp GROUP BY ROLLUP (dept, salary)
SELECT dept, salary, COUNT(*), GROUPING(dept) FROM emp GROUP BY CUBE (dept, salary)
SELECT name, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC, name) FROM emp
SELECT name, RANK() OVER (ORDER BY salary), DENSE_RANK() OVER (ORDER BY salary) FROM emp
SELECT name, SUM(salary) OVER (PARTITION BY dept ORDER BY id) FROM emp
SELECT name, SUM(salary) OVER (PARTITION BY dept) FROM emp
SELECT name, AVG(CAST(salary AS DOUBLE)) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM emp
SELECT name, LAG(salary) OVER (ORDER BY id), LEAD(salary, 2, 0) OVER (ORDER BY id) FROM emp
SELECT name, FIRST_VALUE(name) OVER (PARTITION BY dept ORDER BY salary), LAST_VALUE(name) OVER (PARTITION BY dept ORDER BY salary, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM emp
SELECT name, NTILE(3) OVER (ORDER BY id), CUME_DIST() OVER (ORDER BY salary), PERCENT_RANK() OVER (ORDER BY salary) FROM emp
SELECT * FROM (SELECT name, dept, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC, id) rn FROM emp) WHERE rn = 1
SELECT * FROM (SELECT name, dept, RANK() OVER (PARTITION BY dept ORDER BY salary DESC) rn FROM emp) WHERE rn <= 1
SELECT dept, SUM(salary) AS s, RANK() OVER (ORDER BY SUM(salary) DESC) FROM emp GROUP BY dept
SELECT name, salary FROM emp QUALIFY ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC, id) = 1
WITH a AS (SELECT dept, MAX(salary) m FROM emp GROUP BY dept), b AS (SELECT * FROM a WHERE m > 1000) SELECT e.name FROM emp e JOIN b ON e.dept = b.dept AND e.salary = b.m
SELECT CASE WHEN salary > 1400 THEN 'high' WHEN salary > 950 THEN 'mid' ELSE 'low' END AS band, COUNT(*) FROM emp GROUP BY CASE WHEN salary > 1400 THEN 'high' WHEN salary > 950 THEN 'mid' ELSE 'low' END
SELECT UPPER(name), CHAR_LENGTH(name), SUBSTRING(name FROM 2), name || '-' || CAST(salary AS STRING) FROM emp -- duckdb: SELECT UPPER(name), LENGTH(name), SUBSTRING(name, 2), name || '-' || CAST(salary AS STRING) FROM emp
SELECT EXTRACT(YEAR FROM hired), EXTRACT(MONTH FROM hired), COUNT(*) FROM emp GROUP BY EXTRACT(YEAR FROM hired), EXTRACT(MONTH FROM hired)
SELECT COALESCE(dept, -1), NULLIF(dept, 10) FROM emp
SELECT * FROM (VALUES (1,'x'),(2,'y')) AS v(a,b) JOIN t ON t.k = v.a
SELECT a.k FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.g = a.g AND b.k <> a.k)
SELECT d.dname, x.name FROM dept d, LATERAL (SELECT name, salary FROM emp e WHERE e.dept = d.id ORDER BY salary DESC LIMIT 1) x
SELECT d.dname, x.n FROM dept d LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM emp e WHERE e.dept = d.id) x ON TRUE
SELECT name FROM emp WHERE dept = (SELECT id FROM dept WHERE dname = 'Sales') OR salary > 1900
SELECT x.c, COUNT(*) FROM (SELECT dept, COUNT(*) AS c FROM emp GROUP BY dept) x GROUP BY x.c
SELECT dept, LISTAGG(name) FROM emp WHERE dept = 30 GROUP BY dept -- duckdb: SELECT dept, STRING_AGG(name) FROM emp WHERE dept = 30 GROUP BY dept
SELECT dept, STDDEV_POP(CAST(salary AS DOUBLE)), VAR_SAMP(CAST(salary AS DOUBLE)) FROM emp GROUP BY dept
SELECT name FROM emp ORDER BY salary OFFSET 2 ROWS FETCH NEXT 2 ROWS ONLY -- duckdb: SELECT name FROM emp ORDER BY salary, id LIMIT 2 OFFSET 2
SELECT e.name, m.name FROM emp e LEFT JOIN emp m ON e.mgr = m.id WHERE m.name IS NULL OR m.name <> 'Ann'
SELECT COUNT(*) FROM emp e WHERE EXISTS (SELECT * FROM emp m WHERE m.mgr = e.id) AND NOT EXISTS (SELECT * FROM dept WHERE id = e.dept AND city = 'Oslo')
SELECT dname, (SELECT AVG(CAST(salary AS DOUBLE)) FROM emp WHERE dept = d.id) FROM dept d WHERE city IS NOT NULL
SELECT MAX(cnt) FROM (SELECT COUNT(*) AS cnt FROM emp GROUP BY dept) q
SELECT DISTINCT g, s FROM t ORDER BY g, s
SELECT g, COUNT(s), COUNT(DISTINCT s), MIN(s) FROM t GROUP BY g
SELECT t.*, dept.* FROM t LEFT JOIN dept ON t.k * 10 = dept.id
SELECT * FROM (SELECT 1 AS a) x FULL JOIN (SELECT 2 AS a) y ON x.a = y.a
SELECT k FROM t WHERE s IS DISTINCT FROM 'a'
SELECT k, CASE g WHEN 1 THEN 'one' WHEN 2 THEN 'two' END FROM t
SELECT ARRAY[1,2,3][1] -- duckdb: SELECT 1
SELECT x FROM UNNEST(ARRAY[1,2,3]) AS u(x) -- duckdb: SELECT UNNEST([1,2,3])
SELECT t.k, u.x FROM t CROSS JOIN UNNEST(ARRAY[t.k, t.g]) AS u(x) -- duckdb: SELECT k, UNNEST([k,g]) FROM t
SELECT name, salary - LAG(salary, 1, 0) OVER (PARTITION BY dept ORDER BY id) AS diff FROM emp WHERE dept IS NOT NULL
SELECT name, COUNT(*) OVER (), MAX(salary) OVER (), MIN(hired) OVER (PARTITION BY dept) FROM emp
SELECT name, SUM(salary) OVER w, COUNT(*) OVER w FROM emp WINDOW w AS (PARTITION BY dept ORDER BY hired)
SELECT name, SUM(salary) OVER (ORDER BY salary RANGE BETWEEN 500 PRECEDING AND 500 FOLLOWING) FROM emp
SELECT name, SUM(salary) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM emp
SELECT name, SUM(salary) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM emp
SELECT dept, name, salary * 100 / SUM(salary) OVER (PARTITION BY dept) FROM emp -- duckdb: SELECT dept, name, salary * 100 // SUM(salary) OVER (PARTITION BY dept) FROM emp
SELECT * FROM (SELECT dept, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM emp GROUP BY dept) WHERE r = 1
SELECT COUNT(DISTINCT dept) OVER (ORDER BY id) FROM emp
SELECT name, NTH_VALUE(name, 2) OVER (PARTITION BY dept ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM emp
SELECT name, ROW_NUMBER() OVER (ORDER BY salary DESC, id) + 10 AS x FROM emp ORDER BY x LIMIT 3
SELECT dept, MAX(salary) FILTER (WHERE hired > DATE '2020-01-31') AS m FROM emp GROUP BY dept
SELECT a.dept, b.city FROM (SELECT DISTINCT dept FROM emp) a LEFT JOIN dept b ON a.dept = b.id
SELECT e.name FROM emp e JOIN dept d ON e.dept = d.id JOIN t ON t.k * 10 = d.id WHERE t.s IS NOT NULL
SELECT e.name, d.dname, m.name FROM emp e LEFT JOIN dept d ON e.dept = d.id LEFT JOIN emp m ON m.id = e.mgr
SELECT d.dname, COUNT(e.id) FROM dept d LEFT JOIN emp e ON e.dept = d.id GROUP BY d.dname
SELECT d.dname FROM dept d LEFT JOIN emp e ON e.dept = d.id WHERE e.id IS NULL
SELECT COALESCE(e.dept, d.id), e.name, d.dname FROM emp e FULL JOIN dept d ON e.dept = d.id AND e.salary > 1000
SELECT * FROM dept FULL JOIN (SELECT dept AS id, COUNT(*) c FROM emp GROUP BY dept) x USING (id)
SELECT name FROM emp WHERE salary > ALL (SELECT salary FROM emp WHERE dept = 10)
SELECT name FROM emp WHERE salary < ALL (SELECT salary FROM emp WHERE dept = 999)
SELECT name FROM emp e WHERE 2 > (SELECT COUNT(*) FROM emp x WHERE x.salary > e.salary)
SELECT name, salary > (SELECT AVG(CAST(salary AS DOUBLE)) FROM emp x WHERE x.dept = e.dept) FROM emp e
SELECT name, EXISTS (SELECT 1 FROM dept d WHERE d.id = e.dept) FROM emp e
SELECT name, dept IN (SELECT id FROM dept) FROM emp
SELECT dept, (SELECT dname FROM dept WHERE id = emp.dept) AS dn, COUNT(*) FROM emp GROUP BY dept
SELECT dept FROM emp GROUP BY dept HAVING SUM(salary) > (SELECT AVG(s) FROM (SELECT SUM(salary) AS s FROM emp GROUP BY dept) q)
SELECT dept FROM emp GROUP BY dept HAVING COUNT(*) = (SELECT MAX(c) FROM (SELECT COUNT(*) c FROM emp GROUP BY dept) z)
SELECT name FROM emp e WHERE EXISTS (SELECT 1 FROM emp f WHERE f.mgr = e.id AND EXISTS (SELECT 1 FROM emp g WHERE g.mgr = f.id))
SELECT name FROM emp WHERE id IN (SELECT mgr FROM emp WHERE dept IN (SELECT id FROM dept WHERE city = 'Oslo'))
SELECT * FROM (SELECT dept, name FROM emp UNION ALL SELECT id, dname FROM dept) u WHERE dept > 10
(SELECT k FROM t UNION SELECT g FROM t) EXCEPT SELECT id FROM emp WHERE id < 3
SELECT k FROM t WHERE k > 2 UNION ALL SELECT k FROM t INTERSECT SELECT id FROM emp
SELECT dept, hired, COUNT(*) FROM emp GROUP BY GROUPING SETS ((dept, hired), (hired)) HAVING COUNT(*) > 1
SELECT dept, GROUPING(dept), SUM(salary) FROM emp GROUP BY ROLLUP (dept)
SELECT dept, salary, GROUPING_ID(dept, salary) FROM emp GROUP BY CUBE (dept, salary)
SELECT g, COUNT(DISTINCT s), COUNT(DISTINCT k), SUM(DISTINCT k) FROM t GROUP BY ROLLUP (g)
SELECT MIN(name), MAX(name), MIN(hired) FROM emp WHERE dept = 999
SELECT COUNT(*) FROM emp WHERE FALSE
SELECT 1 + 1, 'a' || 'b', TRUE AND NULL
SELECT dept, AVG(salary) FROM emp GROUP BY dept -- duckdb: SELECT dept, AVG(salary)::INT FROM emp GROUP BY dept
SELECT name FROM emp ORDER BY dept NULLS LAST, salary DESC LIMIT 2
SELECT * FROM emp WHERE hired >= DATE '2020-01-01' AND hired < DATE '2021-01-01'
SELECT name, CASE WHEN mgr IS NULL THEN 'boss' ELSE (SELECT name FROM emp m WHERE m.id = emp.mgr) END FROM emp
SELECT x.dept, x.cnt, y.total FROM (SELECT dept, COUNT(*) cnt FROM emp GROUP BY dept) x JOIN (SELECT dept, SUM(salary) total FROM emp GROUP BY dept) y ON x.dept = y.dept
SELECT SUM(s) FROM (SELECT DISTINCT salary AS s FROM emp) q
SELECT k, x.v FROM t, LATERAL (SELECT MAX(salary) AS v FROM emp WHERE emp.id <= t.k) x
SELECT k, (SELECT SUM(salary) FROM emp WHERE id <= t.k) FROM t
SELECT g, s, LAST_VALUE(k) OVER (PARTITION BY g ORDER BY k, s) FROM t
SELECT dept, name FROM (SELECT dept, name, DENSE_RANK() OVER (PARTITION BY dept ORDER BY salary) AS d FROM emp) WHERE d <= 1
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY salary DESC, id) AS rn FROM emp) WHERE rn BETWEEN 2 AND 4
SELECT id FROM emp WHERE id NOT IN (SELECT mgr FROM emp WHERE mgr IS NOT NULL)
SELECT id FROM emp e WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = e.id AND t.g = e.dept / 10)
SELECT a.k, a.g, b.g FROM t a JOIN t b ON a.k = b.k AND a.g IS NOT DISTINCT FROM b.g
SELECT SUM(a.salary * b.k) FROM emp a CROSS JOIN t b
SELECT dept, CHAR_LENGTH(LISTAGG(name, '; ')), LISTAGG(DISTINCT CAST(dept AS STRING)) FROM emp GROUP BY dept -- duckdb: SELECT dept, LENGTH(STRING_AGG(name, '; ')), STRING_AGG(DISTINCT CAST(dept AS STRING), ',') FROM emp GROUP BY dept
SELECT dept, FIRST_VALUE(dept), LAST_VALUE(dept) FILTER (WHERE salary > 1200), LISTAGG(name) FILTER (WHERE salary > 1900) FROM emp GROUP BY dept -- duckdb: SELECT dept, dept, MAX(dept) FILTER (WHERE salary > 1200), STRING_AGG(name, ',') FILTER (WHERE salary > 1900) FROM emp GROUP BY dept
SELECT dept, mgr, FIRST_VALUE(salary * 0 + 1), LAST_VALUE(dept) FROM emp GROUP BY GROUPING SETS ((dept, mgr), (dept), ()) HAVING dept IS NOT NULL -- duckdb: SELECT dept, mgr, MAX(salary * 0 + 1), MAX(dept) FROM emp GROUP BY GROUPING SETS ((dept, mgr), (dept), ()) HAVING dept IS NOT NULL
SELECT SUM(CASE WHEN dept IN (SELECT id FROM dept) THEN 1 ELSE 0 END) FROM emp
SELECT * FROM t WHERE (k, g) IN ((1, 1), (3, 2))
SELECT dept, ARRAY_AGG(name) FROM emp WHERE dept = 30 GROUP BY dept -- duckdb: SELECT 30, ['Eve']
SELECT a.dept, b.r FROM (SELECT dept, SUM(salary) s FROM emp GROUP BY dept) a JOIN (SELECT dept, RANK() OVER (ORDER BY SUM(salary) DESC) AS r FROM emp GROUP BY dept) b ON a.dept = b.dept
SELECT name FROM emp e WHERE salary > (SELECT AVG(CAST(s AS DOUBLE)) FROM (SELECT salary AS s FROM emp x WHERE x.dept = e.dept UNION ALL SELECT 1000) q)
SELECT dept, cnt, SUM(cnt) OVER (ORDER BY dept NULLS FIRST) FROM (SELECT dept, COUNT(*) AS cnt FROM emp GROUP BY dept) q
SELECT * FROM (SELECT dept, name, salary, RANK() OVER (PARTITION BY dept ORDER BY salary DESC) AS r, COUNT(*) OVER (PARTITION BY dept) AS c FROM emp) q WHERE r = 1 AND c > 1
SELECT COUNT(*) FROM (SELECT dept FROM emp INTERSECT SELECT id FROM dept UNION SELECT 5) q
SELECT e.name, d.dname, COUNT(*) OVER (PARTITION BY d.city) FROM emp e LEFT JOIN dept d ON e.dept = d.id
SELECT city, COUNT(*) FROM dept WHERE id IN (SELECT dept FROM emp GROUP BY dept HAVING COUNT(*) >= 1) GROUP BY city
SELECT GROUPING(dept) AS gd, dept, RANK() OVER (ORDER BY SUM(salary) DESC) AS r FROM emp GROUP BY ROLLUP (dept)
SELECT CASE WHEN EXISTS (SELECT 1 FROM t WHERE k = 99) THEN 'y' ELSE 'n' END, (SELECT MAX(k) FROM t)
SELECT e.name FROM emp e LEFT JOIN dept d ON d.id = (SELECT MAX(k) * 10 FROM t) AND e.dept = d.id WHERE d.id IS NULL
SELECT m.name, x.n FROM emp m LEFT JOIN (SELECT mgr, COUNT(*) n FROM emp GROUP BY mgr) x ON x.mgr = m.id WHERE COALESCE(x.n, 0) = 0
SELECT d.dname, e.name FROM dept d CROSS JOIN LATERAL (SELECT name FROM emp WHERE emp.dept = d.id UNION ALL SELECT d.dname) e
SELECT name FROM emp WHERE dept = ANY (SELECT id FROM dept WHERE city = 'Rome')
SELECT name FROM emp WHERE NOT (dept IN (SELECT id FROM dept WHERE city = 'Rome')) OR dept IS NULL
SELECT COUNT(*) - COUNT(mgr), SUM(DISTINCT dept) FROM emp
SELECT hired, SUM(SUM(salary)) OVER (ORDER BY hired) FROM emp GROUP BY hired
SELECT TIMESTAMPDIFF(DAY, MIN(hired), MAX(hired)) FROM emp -- duckdb: SELECT MAX(hired)::DATE - MIN(hired)::DATE FROM emp
VALUES (1, 'a'), (2, 'b') -- duckdb: SELECT * FROM (VALUES (1,'a'),(2,'b'))
SELECT t1.k FROM t t1 WHERE t1.g = (SELECT MAX(t2.g) FROM t t2 WHERE t2.s = t1.s OR t2.s IS NULL)
SELECT dept, name FROM emp ORDER BY 1 NULLS FIRST, 2 DESC LIMIT 3
SELECT /*+ BROADCAST(d) */ e.name, d.dname FROM emp e JOIN dept d ON e.dept = d.id -- duckdb: SELECT e.name, d.dname FROM emp e JOIN dept d ON e.dept = d.id
SELECT /*+ SHUFFLE_HASH(e, d), NEST_LOOP(d) */ COUNT(*) FROM emp e JOIN dept d ON e.dept = d.id -- duckdb: SELECT 5
SELECT dept, LISTAGG(name) WITHIN GROUP (ORDER BY salary DESC, name) FROM emp GROUP BY dept -- duckdb: SELECT dept, STRING_AGG(name, ',' ORDER BY salary DESC NULLS LAST, name) FROM emp GROUP BY dept
SELECT LISTAGG(name, '; ') WITHIN GROUP (ORDER BY mgr DESC NULLS FIRST, name) FILTER (WHERE salary > 100) FROM emp -- duckdb: SELECT STRING_AGG(name, '; ' ORDER BY mgr DESC NULLS FIRST, name) FILTER (WHERE salary > 100) FROM emp
SELECT dept, CAST(ARRAY_AGG(salary) WITHIN GROUP (ORDER BY name DESC) AS STRING) FROM emp GROUP BY dept -- duckdb: SELECT dept, CAST(ARRAY_AGG(salary ORDER BY name DESC) AS VARCHAR) FROM emp GROUP BY dept
SELECT dept, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY salary DESC), PERCENTILE(0.5) WITHIN GROUP (ORDER BY salary) FROM emp GROUP BY dept -- duckdb: SELECT dept, QUANTILE_CONT(salary, 0.75), MEDIAN(salary) FROM emp GROUP BY dept
SELECT * FROM (SELECT name, dept, mgr FROM emp) UNPIVOT (v FOR n IN (dept, mgr))
SELECT * FROM (SELECT name, dept, mgr FROM emp) UNPIVOT INCLUDE NULLS (v FOR n IN (dept, mgr AS 'the boss'))
SELECT u.n, SUM(u.v) FROM (SELECT name, dept, mgr FROM emp) AS e UNPIVOT (v FOR n IN (mgr, dept AS d)) AS u GROUP BY u.n -- duckdb: SELECT n, SUM(v) FROM (SELECT 'mgr' AS n, mgr AS v FROM emp UNION ALL SELECT 'd', dept FROM emp) GROUP BY n HAVING COUNT(v) > 0
SELECT * FROM (SELECT name, dept, mgr, salary FROM emp) UNPIVOT ((a, b) FOR n IN ((dept, mgr), (mgr, salary) AS 'm')) -- duckdb: SELECT name, 'dept_mgr', dept, mgr FROM emp WHERE dept IS NOT NULL OR mgr IS NOT NULL UNION ALL SELECT name, 'm', mgr, salary FROM emp WHERE mgr IS NOT NULL OR salary IS NOT NULL
SELECT * FROM (SELECT dept, mgr, salary FROM emp) PIVOT (SUM(salary) FOR dept IN (10, 20 AS twenty))
SELECT * FROM (SELECT dept, mgr, salary FROM emp) AS e PIVOT (SUM(salary) AS s, COUNT(*) AS n FOR dept IN (10 AS a, 30 AS b)) AS p
SELECT p.mgr, p.a_n + p.b_n FROM emp PIVOT (COUNT(*) AS n FOR dept IN (10 AS a, 30 AS b) GROUP BY mgr) AS p
SELECT * FROM (SELECT dept, salary FROM emp) PIVOT (MAX(salary) FOR dept IN (10, 20)) -- duckdb: SELECT MAX(salary) FILTER (WHERE dept = 10), MAX(salary) FILTER (WHERE dept = 20) FROM emp
SELECT * FROM (SELECT dept, mgr, salary, name FROM emp) PIVOT (COUNT(DISTINCT salary) FILTER (WHERE salary > 1000) AS c FOR (dept, mgr) IN ((10, 1) AS x, (20, NULL) AS y)) -- duckdb: SELECT name, COUNT(DISTINCT salary) FILTER (WHERE salary > 1000 AND dept = 10 AND mgr = 1), COUNT(DISTINCT salary) FILTER (WHERE salary > 1000 AND dept = 20 AND mgr IS NULL) FROM emp GROUP BY name
SELECT d.dname, p.x FROM dept d JOIN (SELECT name, dept FROM emp) PIVOT (COUNT(*) FOR name IN ('Ann' AS x)) AS p ON TRUE -- duckdb: SELECT d.dname, p.x FROM dept d, (SELECT COUNT(*) FILTER (WHERE name = 'Ann') AS x FROM emp GROUP BY dept) p
SELECT (1, 2) < (1, 3), (2, 1) >= (1, 9), (1, NULL) < (2, 1), (1, 2) <= (1, 2), (1, 2, 3) > (1, 2, 2)
SELECT name FROM emp e WHERE (salary, id) > (1000, 3) AND EXISTS (SELECT 1 FROM t WHERE (t.k, t.g) <= (e.id, 1)) -- duckdb: SELECT name FROM emp e WHERE (salary > 1000 OR salary = 1000 AND id > 3) AND EXISTS (SELECT 1 FROM t WHERE t.k < e.id OR t.k = e.id AND t.g <= 1)
SELECT e.* EXCLUDE (mgr, hired), d.* EXCEPT (id) REPLACE (UPPER(dname) AS dname) FROM emp e JOIN dept d ON e.dept = d.id -- duckdb: SELECT e.* EXCLUDE (mgr, hired), UPPER(d.dname), d.city FROM emp e JOIN dept d ON e.dept = d.id
SELECT * EXCEPT (k) FROM t EXCEPT (SELECT 1, 'a') -- duckdb: SELECT g, s FROM t EXCEPT (SELECT 1, 'a')
SELECT COUNT(*), * EXCEPT (id, name, hired) FROM emp GROUP BY ALL -- duckdb: SELECT COUNT(*), dept, salary, mgr FROM emp GROUP BY ALL
SELECT dept, mgr AS m, COUNT(*), SUM(salary) / 2, 1 FROM emp GROUP BY ALL HAVING COUNT(*) > 0 -- duckdb: SELECT dept, mgr AS m, COUNT(*), SUM(salary) // 2, 1 FROM emp GROUP BY ALL
SELECT dept + 1, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) FROM emp GROUP BY ALL ORDER BY n
SELECT name, name ILIKE '%E', name NOT ILIKE 'd%', id::DOUBLE / 2, (salary + 1)::STRING || 'x', hired::STRING, -id::BIGINT FROM emp
SELECT a.name, b.name FROM emp a LEFT JOIN emp b ON a.salary BETWEEN b.salary - 300 AND b.salary - 1
SELECT e.name, t.k FROM emp e LEFT JOIN (dept d LEFT JOIN t ON t.k * 10 = d.id) ON e.dept = d.id
SELECT d.id, x.n, y.m FROM dept d, LATERAL (SELECT COUNT(*) AS n FROM emp e WHERE e.dept = d.id) x, LATERAL (SELECT x.n * 2 AS m) y
SELECT e.id FROM emp e WHERE e.salary > (SELECT AVG(CAST(x.salary AS DOUBLE)) FROM emp x WHERE x.dept = e.dept AND x.id <> e.id)
SELECT id FROM emp WHERE (dept, mgr) NOT IN (SELECT dept, mgr FROM emp WHERE mgr = 1 AND dept IS NOT NULL)
SELECT d.dname FROM dept d WHERE NOT EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id AND NOT EXISTS (SELECT 1 FROM t WHERE t.k = e.id))
SELECT MAX((SELECT COUNT(*) FROM emp x WHERE x.mgr = e.id)) FROM emp e
SELECT 5 > ALL (SELECT k FROM t WHERE FALSE), 5 > ANY (SELECT k FROM t WHERE FALSE), 10 IN (SELECT dept FROM emp), 99 IN (SELECT dept FROM emp), NULL IN (SELECT dept FROM emp)
WITH a AS (SELECT 1 AS x UNION ALL SELECT 2), b AS (SELECT x FROM a), c AS (SELECT a.x, b.x AS y FROM a, b) SELECT c.x, c.y, (SELECT COUNT(*) FROM a) FROM c WHERE c.x <= c.y
WITH r AS (SELECT dept, salary, ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary) AS rn, COUNT(*) OVER (PARTITION BY dept) AS n FROM emp) SELECT dept, AVG(CAST(salary AS DOUBLE)) FROM r WHERE rn IN ((n + 1) / 2, n / 2 + 1) GROUP BY dept -- duckdb: SELECT dept, MEDIAN(salary) FROM emp GROUP BY dept
SELECT CASE WHEN GROUPING(dept) = 1 THEN 'all' ELSE CAST(dept AS STRING) END, mgr, SUM(salary) FROM emp GROUP BY GROUPING SETS (ROLLUP (dept), (mgr)) -- duckdb: SELECT CASE WHEN GROUPING(dept) = 1 THEN 'all' ELSE CAST(dept AS STRING) END, mgr, SUM(salary) FROM emp GROUP BY GROUPING SETS ((dept), (), (mgr))
SELECT x.id FROM (SELECT id FROM emp UNION SELECT k FROM t) x LEFT JOIN emp e ON e.id = x.id LEFT JOIN t ON t.k = x.id WHERE e.id IS NULL OR t.k IS NULL
SELECT x.a, y.b FROM (VALUES (1), (2), (NULL)) AS x(a) FULL JOIN (VALUES (1), (NULL)) AS y(b) ON x.a IS NOT DISTINCT FROM y.b
SELECT `a b`, `ü` || ' 你好', CHAR_LENGTH('😀a') FROM (SELECT id AS `a b`, name AS `ü` FROM emp) q WHERE `a b` < 3 -- duckdb: SELECT id, name || ' 你好', 2 FROM emp WHERE id < 3
SELECT * FROM (SELECT name, salary FROM emp ORDER BY salary LIMIT 2) a UNION ALL (SELECT name, salary FROM emp ORDER BY salary DESC, name LIMIT 1)
SELECT DISTINCT dept, COUNT(*) OVER (PARTITION BY dept), SUM(DISTINCT mgr) OVER () FROM emp
SELECT a.id, b.id FROM orders a FULL JOIN orders b ON a.ordered = b.ordered + INTERVAL '30' MINUTE AND a.qty < b.qty
SELECT a.id, b.id FROM orders a FULL JOIN orders b ON a.ordered - INTERVAL '1' DAY = b.ordered - INTERVAL '24' HOUR
SELECT a.id, b.id FROM orders a LEFT JOIN orders b ON CAST(a.ordered AS TIMESTAMP(6)) = b.ordered AND a.id <> b.id -- duckdb: SELECT a.id, b.id FROM orders a LEFT JOIN orders b ON a.ordered = b.ordered AND a.id <> b.id
SELECT a.name, b.name FROM emp a FULL JOIN emp b ON a.mgr - b.id = 1 OR (b.id = a.mgr - 1 AND a.dept > b.dept)
SELECT a.name, b.name FROM emp a FULL JOIN emp b ON (a.dept = b.dept AND a.salary < b.salary) OR (a.dept = b.dept AND a.mgr < b.mgr)
SELECT a.name, b.name FROM emp a FULL JOIN emp b ON (a.mgr = b.dept / 10 OR (a.mgr IS NULL AND b.dept / 10 IS NULL)) AND a.id IN (b.id) -- duckdb: SELECT a.name, b.name FROM emp a FULL JOIN emp b ON a.mgr IS NOT DISTINCT FROM b.dept // 10 AND a.id = b.id
SELECT a.id FROM orders a WHERE EXISTS (SELECT 1 FROM orders b WHERE b.ordered - INTERVAL '30' MINUTE = a.ordered) OR NOT EXISTS (SELECT 1 FROM orders b WHERE b.note IS NOT DISTINCT FROM a.note AND b.id <> a.id)
SELECT a.id, (SELECT COUNT(*) FROM orders b WHERE b.ordered > a.ordered), (SELECT COUNT(*) FROM orders b WHERE b.price < a.price) FROM orders a
SELECT x.c, y.n FROM (SELECT customer AS c, CAST(SUM(price) AS DOUBLE) AS p FROM orders GROUP BY customer) x FULL JOIN (SELECT note AS n, CAST(SUM(price) AS DOUBLE) AS p FROM orders GROUP BY note) y ON x.p IS NOT DISTINCT FROM y.p
SELECT a.dt, b.dt FROM (SELECT DISTINCT hired AS dt FROM emp) a FULL JOIN (SELECT DISTINCT hired AS dt FROM emp WHERE dept = 10) b ON a.dt IS NOT DISTINCT FROM b.dt
SELECT a.d FROM (SELECT DISTINCT CAST(g AS DOUBLE) / 2 AS d FROM t) a LEFT JOIN (VALUES (0.5E0), (CAST('NaN' AS DOUBLE)), (CAST(NULL AS DOUBLE))) AS b(d) ON a.d IS NOT DISTINCT FROM b.d WHERE b.d IS NOT NULL
SELECT COUNT(*) FROM (SELECT DISTINCT CAST('NaN' AS DOUBLE) AS d FROM t) a JOIN (VALUES (CAST('NaN' AS DOUBLE)), (0.5E0)) AS b(d) ON a.d IS NOT DISTINCT FROM b.d -- duckdb: SELECT 0
SELECT name, dept FROM emp ORDER BY ALL DESC NULLS LAST LIMIT 4
SELECT DISTINCT mgr, dept FROM emp ORDER BY ALL LIMIT 3 -- duckdb: SELECT DISTINCT mgr, dept FROM emp ORDER BY mgr NULLS FIRST, dept NULLS FIRST LIMIT 3
SELECT k FROM t UNION ALL SELECT id FROM emp ORDER BY ALL DESC LIMIT 4
SELECT q.i, q.city, q.dname FROM (SELECT * EXCLUDE (dname) RENAME (id AS i), d.* REPLACE (UPPER(dname) AS dname) RENAME (id AS j, city AS c) FROM dept d) q WHERE q.j = q.i -- duckdb: SELECT id, city, UPPER(dname) FROM dept
SELECT * FROM (SELECT id, name FROM emp UNION ALL BY NAME SELECT id, city FROM dept UNION ALL BY NAME SELECT city AS name, 1.5 AS id FROM dept) -- duckdb: SELECT * FROM (SELECT id, name FROM emp UNION ALL BY NAME SELECT id, city FROM dept UNION ALL BY NAME SELECT city AS name, 1.5 AS id FROM dept)
SELECT g, s FROM t UNION BY NAME SELECT s, g FROM t
(SELECT k FROM t UNION BY NAME SELECT k, s FROM t WHERE g = 1) UNION ALL SELECT 9, 'z'
SELECT dept, LISTAGG(name, '-' ORDER BY salary DESC, name) FILTER (WHERE id < 6), CAST(ARRAY_AGG(id IGNORE NULLS ORDER BY name DESC) AS STRING) FROM emp GROUP BY dept -- duckdb: SELECT dept, STRING_AGG(name, '-' ORDER BY salary DESC, name) FILTER (WHERE id < 6), CAST(LIST(id ORDER BY name DESC) AS STRING) FROM emp GROUP BY dept
SELECT id, LAST_VALUE(mgr IGNORE NULLS) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING EXCLUDE NO OTHERS) FROM emp
SELECT id, 'a' = ANY(pages), 'b' <> ANY(pages), 'b' > ALL(pages), who.name = ANY(pages) FROM visits -- duckdb: SELECT id, 'a' = ANY(SELECT UNNEST(pages)), 'b' <> ANY(SELECT UNNEST(pages)), 'b' > ALL(SELECT UNNEST(pages)), who.name = ANY(SELECT UNNEST(pages)) FROM visits WHERE pages IS NOT NULL UNION ALL SELECT id, NULL, NULL, NULL, NULL FROM visits WHERE pages IS NULL
SELECT id, g = ANY(ARRAY[id, dept, NULL]), g <> ALL(ARRAY[id, 3]), g <= ANY(a), g >= ALL(a), g <> ALL(a), g = SOME(a) FROM (SELECT e.id, dept, t.g, ARRAY[t.g, e.id, e.mgr] AS a FROM emp e, t) -- duckdb: SELECT id, g = id OR g = dept OR g = NULL, g <> id AND g <> 3, g <= g OR g <= id OR g <= mgr, g >= g AND g >= id AND g >= mgr, g <> g AND g <> id AND g <> mgr, g = g OR g = id OR g = mgr FROM (SELECT e.id, dept, t.g, e.mgr FROM emp e, t)
SELECT e.name, t.k, d.dname FROM emp e, t, dept d WHERE e.dept = d.id AND t.k * 10 = d.id
SELECT t.k, d.city, e.name, m.name FROM t CROSS JOIN dept d JOIN emp e ON e.dept = d.id AND t.k = e.mgr, emp m WHERE m.id = t.k AND m.salary > 900
SELECT * FROM t, (SELECT COUNT(*) AS n FROM dept) c, emp e WHERE e.id = t.k AND e.salary > c.n * 100
