SELECT name FROM emp ORDER BY id LIMIT 1, 2
-- instead: SELECT name FROM emp ORDER BY id LIMIT 2 OFFSET 1
SELECT TOP 3 name FROM emp
-- instead: SELECT name FROM emp LIMIT 3
SELECT DISTINCT ON (dept) dept, name FROM emp ORDER BY dept, salary DESC
-- instead: SELECT dept, name FROM emp QUALIFY ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC) = 1
SELECT * FROM generate_series(1, 5)
-- instead: SELECT * FROM (VALUES (1), (2), (3)) AS v (x)
SELECT * FROM range(5)
SELECT dept, RANK() OVER (ORDER BY ALL) FROM emp
-- instead: SELECT dept, RANK() OVER (ORDER BY dept) FROM emp ORDER BY ALL
SELECT k FROM t INTERSECT BY NAME SELECT id AS k FROM emp
-- instead: SELECT k FROM t INTERSECT SELECT id FROM emp
SELECT k FROM t UNION ALL CORRESPONDING SELECT id AS k FROM emp
-- instead: SELECT k FROM t UNION ALL BY NAME SELECT id AS k FROM emp
SELECT k, g AS k FROM t UNION BY NAME SELECT id AS k FROM emp
-- instead: SELECT k, g AS kk FROM t UNION BY NAME SELECT id AS k FROM emp
SELECT * RENAME k AS kk FROM t
-- instead: SELECT * RENAME (k AS kk) FROM t
SELECT * RENAME (kk AS k) FROM t
SELECT * EXCLUDE (k) RENAME (k AS kk) FROM t
SELECT * LIKE 'k%' FROM t
-- instead: SELECT * EXCLUDE (g) FROM t
SELECT COLUMNS('k.*') FROM t
-- instead: SELECT k FROM t
SELECT MIN(COLUMNS(*)) FROM t
-- instead: SELECT MIN(k), MIN(g), MIN(s) FROM t
SELECT * FROM t USING SAMPLE 10
-- instead: SELECT * FROM t ORDER BY RAND() LIMIT 10
SELECT * FROM t AS x TABLESAMPLE BERNOULLI (10 PERCENT)
-- instead: SELECT * FROM t AS x WHERE RAND() < 0.1
SELECT * FROM t LIMIT 10%
-- instead: SELECT * FROM t QUALIFY PERCENT_RANK() OVER (ORDER BY k) < 0.1
SELECT * FROM t LIMIT 10 PERCENT
SELECT * FROM t FETCH FIRST 10 PERCENT ROWS ONLY
WITH q AS NOT MATERIALIZED (SELECT 1 AS n) SELECT * FROM q
-- instead: WITH q AS (SELECT 1 AS n) SELECT * FROM q
SELECT list_transform([1,2], x -> x + 1)
SELECT [1, 2, 3]
-- instead: SELECT ARRAY[1, 2, 3]
SELECT {'a': 1}
-- instead: SELECT MAP['a', 1], ROW(1, 2), JSON_OBJECT('a' VALUE 1)
SELECT name
SELECT name FORM emp
SELECT name FROM emp GROUPBY dept
SELECT name FROM emp ORDERBY dept
-- instead: SELECT name FROM emp ORDER BY dept
SELECT name FROM emp ODER BY dept
SELECT dept, COUNT(*) FROM emp GROUP dept
-- instead: SELECT dept, COUNT(*) FROM emp GROUP BY 1
SELECT name FROM emp ORDER id
SELECT name, FROM emp
SELECT , name FROM emp
SELECT name dept salary FROM emp
SELECT name FROM emp,
SELECT COUNT(* FROM emp
SELECT (salary + 1 FROM emp
-- instead: SELECT (salary + 1) FROM emp
SELECT salary + 1) FROM emp
SELECT select FROM emp
SELECT order FROM emp
SELECT user FROM emp
SELECT name AS order FROM emp
SELECT * FROM order
SELECT * FROM table
-- instead: SELECT * FROM `emp`
SELECT "name" FROM emp
-- instead: SELECT `name` FROM emp
SELECT [name] FROM emp
-- instead: SELECT `name` FROM emp
SELECT * FROM emp LEFT dept ON emp.dept = dept.id
-- instead: SELECT * FROM emp LEFT JOIN dept ON emp.dept = dept.id
SELECT dept, name FROM emp GROUP BY dept
-- instead: SELECT dept, MAX(name) FROM emp GROUP BY dept
SELECT dept, COUNT(*) FROM emp
SELECT dept FROM emp GROUP BY dept HAVING salary > 10
SELECT dept AS d, COUNT(*) FROM emp GROUP BY d
-- instead: SELECT dept AS d, COUNT(*) FROM emp GROUP BY dept
SELECT dept, COUNT(*) FROM emp GROUP BY 7
-- instead: SELECT dept, COUNT(*) FROM emp GROUP BY 1
SELECT dept, COUNT(*) c FROM emp GROUP BY dept HAVING c > 1
-- instead: SELECT dept, COUNT(*) c FROM emp GROUP BY dept HAVING COUNT(*) > 1
SELECT salary * 2 AS d, d + 1 FROM emp
SELECT * FROM print
SELECT * FROM sink
SELECT attrs.k FROM orders
-- instead: SELECT attrs['k'] FROM orders
SELECT attrs->'k' FROM orders
SELECT attrs->>'k' FROM orders
-- instead: SELECT attrs['k'], JSON_VALUE(item, '$.key') FROM orders
SELECT tags[0] FROM orders
SELECT tags[1:2] FROM orders
-- instead: SELECT ARRAY_SLICE(tags, 1, 2) FROM orders
SELECT TIME '25:00:00'
SELECT emp.nosuch FROM emp
SELECT e.name FROM emp
SELECT emp.name FROM emp e
SELECT nosuch.name FROM emp
SELECT nmae FROM emp
SELECT NAME FROM emp
SELECT * FROM Emp
SELECT * FROM emps
SELECT * FROM nodb.emp
SELECT * FROM a.b.c.d
SELECT * FROM emp AS
SELECT * FROM emp e e2
SELECT * FROM (emp)
SELECT * FROM emp, emp
-- instead: SELECT * FROM emp, emp AS emp2
SELECT * FROM emp a, emp a
SELECT * FROM emp FULL OUTER dept ON TRUE
SELECT id, SELECT 1 FROM emp
SELECT 1 UNION SELECT 1, 2
SELECT id FROM emp UNION
SELECT id FROM emp UNION ALL ORDER BY id
SELECT id FROM emp LIMIT 1 UNION SELECT id FROM dept
-- instead: (SELECT id FROM emp LIMIT 1) UNION SELECT id FROM dept
SELECT id FROM emp UNION SELECT id FROM dept ORDER BY name
SELECT id FROM emp UNIONALL SELECT id FROM dept
SELECT id FROM emp ORDER BY nosuch
SELECT id FROM emp ORDER BY 3
SELECT id FROM emp ORDER BY 0
SELECT id FROM emp LIMIT -1
SELECT id FROM emp LIMIT 1.5
SELECT id FROM emp LIMIT id
SELECT id FROM emp LIMIT 10%
SELECT id FROM emp LIMIT 1 + 1
SELECT id FROM emp LIMIT
SELECT id FROM emp OFFSET
SELECT id FROM emp FETCH 3 ROWS ONLY
-- instead: SELECT id FROM emp FETCH FIRST 3 ROWS ONLY
SELECT id FROM emp FETCH FIRST 3
SELECT FROM emp
SELECT * emp
SELECT *, FROM emp
SELECT * name FROM emp
SELECT DISTINCT FROM emp
SELECT UNIQUE id FROM emp
-- instead: SELECT DISTINCT id FROM emp
SELECT emp.id.x FROM emp
SELECT 'abc FROM emp
SELECT `id FROM emp
SELECT 0x1F
-- instead: SELECT 31, X'1F'
SELECT 1_000
-- instead: SELECT 1000
SELECT $1 FROM emp
SELECT ? FROM emp
SELECT :id FROM emp
SELECT @x
SELECT {{ x }}
SELECT id; FROM emp
SELECT id FROM emp SELECT 1
VALUES (1, 2), (3)
VALUES ()
SELECT * FROM VALUES (1), (2)
-- instead: SELECT * FROM (VALUES (1), (2)) AS v (x)
SELECT * FROM (VALUES (1), (2)) AS v(a, b)
SELECT * FROM orders, tags
-- instead: SELECT * FROM orders CROSS JOIN UNNEST(tags) AS u (element)
SELECT * FROM emp TABLESAMPLE (10)
-- instead: SELECT * FROM emp WHERE RAND() < 0.1
SELECT dept, COUNT(*) FROM emp GROUP BY ROLLUP dept
-- instead: SELECT dept, COUNT(*) FROM emp GROUP BY ROLLUP (dept)
SELECT dept, COUNT(*) FROM emp GROUP BY GROUPING SETS dept
SELECT GROUPING(name), COUNT(*) FROM emp GROUP BY ROLLUP (dept)
SELECT dept, name, COUNT(*) FROM emp GROUP BY ROLLUP (dept)
SELECT dept, salary + 1 FROM emp GROUP BY dept, salary + 2
SELECT dept FROM emp GROUP BY dept ORDER BY salary
SELECT dept, COUNT(*) FROM emp GROUP BY COUNT(*)
SELECT * FROM emp GROUP BY dept
SELECT COUNT(*), * FROM emp
SELECT LISTAGG(DISTINCT name) WITHIN GROUP (ORDER BY name) FROM emp
SELECT MAP['a', 1, 'b']
-- instead: SELECT MAP['a', 1, 'b', 2]
SELECT MAP {'a': 1}
SELECT CURRENT_USER
SELECT ROWNUM FROM emp
-- instead: SELECT ROW_NUMBER() OVER (ORDER BY id) FROM emp
SELECT rowid FROM emp
SELECT * FROM dual
-- instead: SELECT 1
SELECT * FROM information_schema.tables
-- instead: SHOW TABLES
SELECT * INTO x FROM emp
-- instead: CREATE TABLE x WITH ('connector' = 'blackhole') AS SELECT * FROM emp
SELECT SQL_CALC_FOUND_ROWS * FROM emp
SELECT id FROM emp EMIT CHANGES
SELECT STREAM id FROM emp
SELECT * FROM read_csv('x.csv')
SELECT * FROM '/nosuch/nosuch.csv'
SELECT * FROM "nosuch.csv"
SELECT * FROM nosuch.csv
SELECT * EXCEPT (nosuch) FROM emp
SELECT * EXCEPT (id, id) FROM emp
SELECT * EXCEPT (id) REPLACE (1 AS id) FROM emp
SELECT s.* EXCEPT (k, g, s) FROM t AS s
SELECT * EXCLUDE salary FROM emp
-- instead: SELECT * EXCLUDE (salary) FROM emp
SELECT * REPLACE (salary * 2) FROM emp
-- instead: SELECT * REPLACE (salary * 2 AS salary) FROM emp
SELECT (1, 2) < (1, 2, 3)
SELECT id::STRNG FROM emp
SELECT id:: FROM emp
SELECT name, COUNT(*) FROM emp GROUP BY ALL, name
SELECT name NOT ILIKE FROM emp
SELECT /*+ BROADCAST(d) */ name FROM emp
SELECT /*+ SHUFFLE_HASH(emp, dpt) */ e.name FROM emp e JOIN dept ON e.dept = dept.id
SELECT /*+ */ name FROM emp
SELECT LAG(salary) OVER (PARTITION BY dept ORDER BY orders.ts ROWS 5 PRECEDING) FROM emp, orders
-- instead: SELECT LAG(salary) OVER (PARTITION BY dept ORDER BY orders.ts) FROM emp, orders
