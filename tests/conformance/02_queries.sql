-- # Queries

-- : SELECT, WHERE
SELECT name, salary * 2 AS twice FROM emp WHERE salary > 1000;
-- : SELECT without FROM
SELECT 1 + 1, 'a' || 'b';
-- : SELECT DISTINCT
SELECT DISTINCT dept FROM emp;
-- : * and t.*
SELECT d.*, e.name FROM emp e JOIN dept d ON e.dept = d.id WHERE e.id = 1;
-- : VALUES
VALUES (1, 'a'), (2, 'b');
-- : VALUES in FROM
SELECT x + 1, y FROM (VALUES (1, 'a'), (2, 'b')) AS v (x, y);
-- : WITH
WITH a AS (SELECT dept, MAX(salary) AS m FROM emp GROUP BY dept), b AS (SELECT * FROM a WHERE m > 1000) SELECT * FROM b;
-- : WITH RECURSIVE
WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a WHERE x < 3) SELECT * FROM a;
-- : WITH RECURSIVE … UNION
WITH RECURSIVE a (x) AS (SELECT 1 UNION SELECT MOD(x, 3) + 1 FROM a) SELECT * FROM a;
-- : WITH MUTUALLY RECURSIVE
WITH MUTUALLY RECURSIVE even (n INT) AS (SELECT 0 UNION SELECT n + 1 FROM odd), odd (n INT) AS (SELECT n + 1 FROM even WHERE n < 4) SELECT * FROM even;
-- : … RETURN AT RECURSION LIMIT
WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 3) a (x INT) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT * FROM a;
-- : … ERROR AT RECURSION LIMIT
WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3) a (x INT) AS (SELECT 1 UNION SELECT x + 1 FROM a WHERE x < 3) SELECT * FROM a;
-- : GROUP BY
SELECT dept, COUNT(*), SUM(salary) FROM emp GROUP BY dept;
-- : HAVING
SELECT dept FROM emp GROUP BY dept HAVING COUNT(*) > 1;
-- : DISTINCT aggregate
SELECT COUNT(DISTINCT dept), SUM(DISTINCT salary) FROM emp;
-- : FILTER
SELECT COUNT(*) FILTER (WHERE salary > 1000) FROM emp;
-- : GROUPING SETS
SELECT dept, hired, COUNT(*) FROM emp GROUP BY GROUPING SETS ((dept), (hired), ());
-- : ROLLUP
SELECT dept, SUM(salary), GROUPING(dept) FROM emp GROUP BY ROLLUP (dept);
-- : CUBE
SELECT dept, name, COUNT(*) FROM emp WHERE id < 3 GROUP BY CUBE (dept, name);
-- : ORDER BY, LIMIT, OFFSET
SELECT name FROM emp ORDER BY salary DESC, name LIMIT 2 OFFSET 1;
-- : FETCH FIRST
SELECT name FROM emp ORDER BY name FETCH FIRST 2 ROWS ONLY;
-- : NULLS FIRST, NULLS LAST
SELECT name, dept FROM emp ORDER BY dept NULLS LAST, name DESC LIMIT 2;
-- : ORDER BY time on a stream
SELECT id, ts FROM orders ORDER BY ts;
-- : UNION, UNION ALL
SELECT dept FROM emp UNION SELECT id FROM dept;
-- : INTERSECT, INTERSECT ALL
SELECT dept FROM emp INTERSECT SELECT id FROM dept;
-- : EXCEPT, EXCEPT ALL, MINUS
SELECT id FROM dept EXCEPT SELECT dept FROM emp;
-- : IN (SELECT …)
SELECT name FROM emp WHERE dept IN (SELECT id FROM dept);
-- : NOT IN (SELECT …)
SELECT dname FROM dept WHERE id NOT IN (SELECT dept FROM emp WHERE dept IS NOT NULL);
-- : EXISTS
SELECT dname FROM dept d WHERE EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id AND e.salary > 1200);
-- : NOT EXISTS
SELECT dname FROM dept d WHERE NOT EXISTS (SELECT 1 FROM emp e WHERE e.dept = d.id);
-- : ANY, SOME, ALL
SELECT name FROM emp WHERE salary >= ALL (SELECT salary FROM emp);
-- : scalar subquery
SELECT name FROM emp WHERE salary = (SELECT MAX(salary) FROM emp);
-- : correlated scalar subquery
SELECT dname, (SELECT COUNT(*) FROM emp e WHERE e.dept = d.id) FROM dept d;
-- : row comparison
SELECT name FROM emp WHERE (dept, salary) IN ((10, 1500), (20, 900));
-- : UNNEST
SELECT o.id, u.tag FROM orders o CROSS JOIN UNNEST(o.tags) AS u (tag);
-- : UNNEST of a MAP
SELECT o.id, u.k, u.v FROM orders o CROSS JOIN UNNEST(o.attrs) AS u (k, v);
-- : a subquery over the elements of the outer row
SELECT o.id, (SELECT MAX(tag) FROM UNNEST(o.tags) AS u (tag)) AS last_tag FROM orders o WHERE EXISTS (SELECT 1 FROM UNNEST(o.tags) AS u (tag));
-- : LATERAL over UNNEST
SELECT o.id, l.tag FROM orders o, LATERAL (SELECT UPPER(tag) AS tag FROM UNNEST(o.tags) AS u (tag) WHERE tag <> 'x') l;
-- : GROUP BY an ARRAY
SELECT tags, COUNT(*) AS n FROM orders WHERE tags <> ARRAY['nothing'] GROUP BY tags;
-- : UNNEST WITH ORDINALITY
SELECT x, n FROM UNNEST(ARRAY['p', 'q']) WITH ORDINALITY AS u (x, n);
-- : LEFT JOIN UNNEST
SELECT o.id, u.tag FROM orders o LEFT JOIN UNNEST(o.tags) AS u (tag) ON TRUE WHERE o.id = 3;
-- : LATERAL (SELECT …)
SELECT d.dname, x.name FROM dept d, LATERAL (SELECT name FROM emp e WHERE e.dept = d.id ORDER BY salary DESC LIMIT 1) x;
-- : LATERAL TABLE(function)
CREATE TEMPORARY FUNCTION letters AS 'functions.letters' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT id, letter FROM emp, LATERAL TABLE(letters(name)) AS x (letter);
-- : PIVOT (not in Flink)
SELECT * FROM (SELECT dept, salary FROM emp) PIVOT (SUM(salary) FOR dept IN (10 AS a, 20 AS b));
-- : UNPIVOT
SELECT * FROM emp UNPIVOT (v FOR k IN (id, salary));
-- : QUALIFY (not in Flink)
SELECT name FROM emp QUALIFY ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC) = 1;
-- : * EXCEPT, EXCLUDE, REPLACE (not in Flink)
SELECT * EXCEPT (hired, dept) REPLACE (UPPER(name) AS name) FROM emp WHERE id = 1;
-- : * RENAME (not in Flink)
SELECT * RENAME (dname AS department) FROM dept ORDER BY id LIMIT 1;
-- : ORDER BY ALL (not in Flink)
SELECT dept, name FROM emp ORDER BY ALL DESC LIMIT 2;
-- : UNION BY NAME (not in Flink)
SELECT id, name FROM emp UNION ALL BY NAME SELECT city, id FROM dept ORDER BY id LIMIT 3;
-- : value = ANY (array) (not in Flink)
SELECT name, dept = ANY(ARRAY[10, 20]), dept > ALL(a) FROM (SELECT name, dept, ARRAY[id, 15] AS a FROM emp) ORDER BY name LIMIT 3;
-- : LISTAGG (… ORDER BY …) (not in Flink)
SELECT dept, LISTAGG(name, '-' ORDER BY name DESC) FROM emp WHERE dept = 10 GROUP BY dept;
-- : GROUP BY ALL (not in Flink)
SELECT dept, COUNT(*) FROM emp GROUP BY ALL;
-- : TABLESAMPLE
SELECT * FROM emp TABLESAMPLE BERNOULLI (10);
-- : files in FROM (not in Flink)
SELECT COUNT(*) FROM 'emp.json';
-- : views on views
CREATE VIEW a AS SELECT dept, SUM(salary) AS s FROM emp GROUP BY dept; CREATE VIEW b AS SELECT MAX(s) AS m FROM a; SELECT * FROM b;
-- : CASE
SELECT name, CASE WHEN salary > 1000 THEN 'high' ELSE 'low' END FROM emp WHERE id < 3;
-- : quoted identifiers
SELECT id AS `an id` FROM `emp` WHERE id = 1;
-- : execution.runtime-mode = BATCH
SET 'execution.runtime-mode' = 'BATCH'; SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : dynamic table options
SELECT COUNT(*) FROM numbers /*+ OPTIONS('number-of-rows' = '7') */;
