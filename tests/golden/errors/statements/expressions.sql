SELECT SYSDATE
-- instead: SELECT CURRENT_TIMESTAMP
SELECT INTERVAL '1 day'
-- instead: SELECT INTERVAL '1' DAY
SELECT hired + INTERVAL '1 day' FROM emp
-- instead: SELECT hired + INTERVAL '1' DAY FROM emp
SELECT hired + INTERVAL 1.5 DAY FROM emp
-- instead: SELECT CAST(hired AS TIMESTAMP(3)) + INTERVAL 36 HOUR FROM emp
SELECT hired + 1 FROM emp
-- instead: SELECT hired + INTERVAL '1' DAY, TIMESTAMPADD(DAY, 1, hired) FROM emp
SELECT name FROM emp WERE id = 1
SELECT name FROM emp WHERE
SELECT name FROM emp WHERE id =
SELECT name FROM emp WHERE id = 1 AND
SELECT name FROM emp WHERE AND id = 1
SELECT CASE WHEN 1 = 1 THEN 2 FROM emp
SELECT CASE salary > 1 THEN 2 END FROM emp
SELECT * FROM emp WHERE name = "Ann"
-- instead: SELECT * FROM emp WHERE name = 'Ann'
SELECT 'name' FROM emp WHERE 'id' = 1
SELECT dept FROM emp WHERE COUNT(*) > 1
-- instead: SELECT dept FROM emp GROUP BY dept HAVING COUNT(*) > 1
SELECT salary * 2 AS d FROM emp WHERE d > 100
-- instead: SELECT salary * 2 AS d FROM emp WHERE salary * 2 > 100
SELECT name + 1 FROM emp
SELECT name + name FROM emp
-- instead: SELECT name || name FROM emp
SELECT name || id FROM emp
-- instead: SELECT name || CAST(id AS STRING) FROM emp
SELECT id || id FROM emp
SELECT name - 'a' FROM emp
SELECT id AND TRUE FROM emp
SELECT NOT id FROM emp
SELECT -name FROM emp
SELECT id FROM emp WHERE id
SELECT id FROM emp WHERE name
SELECT id FROM emp WHERE 'x'
SELECT id FROM emp WHERE id = '1'
-- instead: SELECT id FROM emp WHERE id = 1
SELECT id FROM emp WHERE id = 'x'
-- instead: SELECT id FROM emp WHERE CAST(id AS STRING) = 'x'
SELECT id FROM emp WHERE name = 1
-- instead: SELECT id FROM emp WHERE name = '1' OR CAST(name AS INT) = 1
SELECT id FROM emp WHERE hired = 2020
SELECT id FROM emp WHERE name IN (1, 2)
SELECT id FROM emp WHERE id IN ('a', 'b')
SELECT id FROM emp WHERE id IN ()
-- instead: SELECT id FROM emp WHERE FALSE
SELECT id FROM emp WHERE id IN 1, 2
-- instead: SELECT id FROM emp WHERE id IN (1, 2)
SELECT id FROM emp WHERE id IN dept
SELECT id FROM emp WHERE id BETWEEN 1
SELECT id FROM emp WHERE id BETWEEN 1, 2
-- instead: SELECT id FROM emp WHERE id BETWEEN 1 AND 2
SELECT id FROM emp WHERE id IS 1
SELECT id FROM emp WHERE id NOT NULL
-- instead: SELECT id FROM emp WHERE id IS NOT NULL
SELECT ts AT TIME ZONE 'Europe/Rome' FROM orders
-- instead: SELECT TO_TIMESTAMP(CONVERT_TZ(DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss'), 'UTC', 'Europe/Rome')) FROM orders
SELECT id FROM orders WHERE (ts AT LOCAL) IS NULL
SELECT id FROM orders WHERE item IN tags
-- instead: SELECT id FROM orders WHERE item = ANY(tags)
SELECT id FROM orders WHERE item IN UNNEST(tags)
SELECT id FROM orders WHERE id = ANY(tags)
SELECT id FROM orders WHERE CAST(RAND() AS STRING) = ANY(tags)
SELECT name FROM emp WHERE name LIKE ANY ('a%', 'b%')
-- instead: SELECT name FROM emp WHERE name LIKE 'a%' OR name LIKE 'b%'
SELECT name FROM emp WHERE name !~ 'a.*'
-- instead: SELECT name FROM emp WHERE NOT REGEXP(name, 'a.*')
SELECT STRING_AGG(name, ';' ORDER BY id) FROM emp
-- instead: SELECT LISTAGG(name, ';' ORDER BY id) FROM emp
SELECT MAX(name ORDER BY id) FROM emp
-- instead: SELECT MAX(name) FROM emp
SELECT id FROM emp WHERE id ISNULL
-- instead: SELECT id FROM emp WHERE id IS NULL
SELECT id FROM emp WHERE id == 1
-- instead: SELECT id FROM emp WHERE id = 1
SELECT id FROM emp WHERE id =! 1
SELECT id FROM emp WHERE id ! = 1
-- instead: SELECT id FROM emp WHERE id <> 1
SELECT id FROM emp WHERE id >< 1
SELECT id FROM emp WHERE id = 1 && dept = 2
SELECT id FROM emp WHERE id = 1 || dept = 2
-- instead: SELECT id FROM emp WHERE id = 1 OR dept = 2
SELECT id FROM emp WHERE !(id = 1)
SELECT id FROM emp WHERE name LIKE 1
SELECT id FROM emp WHERE name LIKE "a%"
SELECT id FROM emp WHERE name REGEXP '^A'
-- instead: SELECT id FROM emp WHERE REGEXP(name, '^A')
SELECT id FROM emp WHERE name RLIKE '^A'
SELECT id FROM emp WHERE name ~ '^A'
SELECT id FROM emp WHERE name GLOB 'A*'
-- instead: SELECT id FROM emp WHERE name LIKE 'A%'
SELECT id FROM emp WHERE name LIKE 'a' ESCAPE 'xx'
SELECT id & 1 FROM emp
SELECT id ^ 2 FROM emp
-- instead: SELECT POWER(id, 2) FROM emp
SELECT id ** 2 FROM emp
-- instead: SELECT POWER(id, 2) FROM emp
SELECT id << 1 FROM emp
SELECT id // 2 FROM emp
-- instead: SELECT id / 2 FROM emp
SELECT id DIV 2 FROM emp
SELECT id MOD 2 FROM emp
-- instead: SELECT id % 2, MOD(id, 2) FROM emp
SELECT tags['a'] FROM orders
SELECT id[1] FROM orders
SELECT attrs[1] FROM orders
SELECT DATE '2020/01/01'
-- instead: SELECT DATE '2020-01-01'
SELECT DATE '2020-02-30'
SELECT TIMESTAMP '2020-01-01'
-- instead: SELECT TIMESTAMP '2020-01-01 00:00:00'
SELECT INTERVAL '1' FORTNIGHT
SELECT INTERVAL '1-2' DAY
SELECT INTERVAL 'x' DAY
SELECT hired - id FROM emp
SELECT hired + hired FROM emp
SELECT CASE WHEN id THEN 1 END FROM emp
SELECT CASE WHEN id = 1 THEN 'a' ELSE 1 END FROM emp
SELECT CASE WHEN id = 1 THEN 'a' ELSE hired END FROM emp
SELECT CASE id WHEN 'a' THEN 1 END FROM emp
SELECT CASE END FROM emp
SELECT CASE WHEN id = 1 END FROM emp
SELECT 1 UNION SELECT 'a'
SELECT id FROM emp UNION SELECT name FROM emp
SELECT id FROM emp ORDER BY id UNION SELECT id FROM dept
-- instead: (SELECT id FROM emp ORDER BY id) UNION SELECT id FROM dept
SELECT id FROM emp ORDER BY id ASCENDING
SELECT id FROM emp ORDER BY id NULLS
SELECT id FROM emp ORDER BY id DESC NULLS LOWEST
SELECT id FROM emp WHERE id > 1 WHERE id < 3
SELECT id FROM emp GROUP BY id WHERE id > 1
SELECT id FROM emp HAVING id > 1
SELECT id FROM emp LIMIT 1 WHERE id > 1
SELECT id WHERE id > 1 FROM emp
SELECT id AS 'x' FROM emp
-- instead: SELECT id AS `x` FROM emp
SELECT id 'x' FROM emp
SELECT id AS "x" FROM emp
SELECT id AS x y FROM emp
SELECT id AS 1x FROM emp
-- instead: SELECT id AS `1x` FROM emp
SELECT id AS x.y FROM emp
SELECT id a-b FROM emp
-- instead: SELECT id `a-b` FROM emp
SELECT id /* open FROM emp
SELECT id # comment
SELECT id FROM emp WHERE name = ‘Ann’
SELECT id FROM emp WHERE name = 'O'Brien'
SELECT id FROM emp WHERE name = 'O\'Brien'
VALUES (1), ('a')
SELECT COUNT(*) FROM emp GROUP BY dept HAVING COUNT(*)
SELECT * FROM emp WHERE ROWNUM < 3
SELECT * FROM emp FOR UPDATE
-- instead: SELECT * FROM emp
SELECT id FROM emp e WHERE e.dept = d.id
SELECT * FROM emp WHERE dept.id = 1
SELECT * FROM emp WHERE (id, name) < (1, 2)
