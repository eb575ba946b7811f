SELECT dept, STRING_AGG(name, ',') FROM emp GROUP BY dept
-- instead: SELECT dept, LISTAGG(name, ',') FROM emp GROUP BY dept
SELECT dept, GROUP_CONCAT(name) FROM emp GROUP BY dept
-- instead: SELECT dept, LISTAGG(name) FROM emp GROUP BY dept
SELECT DATE_TRUNC('month', hired) FROM emp
-- instead: SELECT FLOOR(hired TO MONTH) FROM emp
SELECT DATE_PART('year', hired) FROM emp
-- instead: SELECT EXTRACT(YEAR FROM hired) FROM emp
SELECT GETDATE()
-- instead: SELECT CURRENT_TIMESTAMP
SELECT CURRENT_TIMESTAMP()
-- instead: SELECT CURRENT_TIMESTAMP
SELECT DATEDIFF(hired, DATE '2020-01-01') FROM emp
-- instead: SELECT TIMESTAMPDIFF(DAY, DATE '2020-01-01', hired) FROM emp
SELECT DATE_ADD(hired, 1) FROM emp
-- instead: SELECT TIMESTAMPADD(DAY, 1, hired) FROM emp
SELECT DATE_ADD(hired, INTERVAL 1 DAY) FROM emp
SELECT DATEADD(day, 1, hired) FROM emp
-- instead: SELECT TIMESTAMPADD(DAY, 1, hired) FROM emp
SELECT TO_CHAR(hired, 'YYYY') FROM emp
-- instead: SELECT DATE_FORMAT(hired, 'yyyy-MM-dd HH:mm:ss') FROM emp
SELECT STRFTIME(hired, '%Y') FROM emp
SELECT TRANSFORM(ARRAY[1,2], x -> x + 1)
SELECT STRUCT(1, 2)
-- instead: SELECT ROW(1, 2)
SELECT SUM(SUM(salary)) FROM emp
SELECT MEDIAN(salary) FROM emp
-- instead: SELECT PERCENTILE(salary, 0.5) FROM emp
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY salary) FROM emp
SELECT MODE(dept) FROM emp
SELECT ANY_VALUE(name) FROM emp
-- instead: SELECT FIRST_VALUE(name) FROM emp
SELECT COUNT() FROM emp
SELECT SUM(name) FROM emp
SELECT SUM(*) FROM emp
SELECT AVG(hired) FROM emp
SELECT MAX(id, salary) FROM emp
SELECT COUNT(IF(salary > 1)) FROM emp
SELECT UPPER() FROM emp
SELECT UPPER(name, 1) FROM emp
SELECT UPPER(id) FROM emp
SELECT UPER(name) FROM emp
SELECT SUBSTRING(name FROM 'a') FROM emp
SELECT CAST(id TO STRING) FROM emp
SELECT CAST(id, STRING) FROM emp
SELECT CAST(id AS STRNG) FROM emp
SELECT CAST(id AS) FROM emp
SELECT CONVERT(STRING, id) FROM emp
SELECT CONVERT(id, CHAR) FROM emp
-- instead: SELECT CAST(id AS STRING) FROM emp
SELECT CAST(hired AS INT) FROM emp
-- instead: SELECT TIMESTAMPDIFF(DAY, DATE '1970-01-01', hired), EXTRACT(YEAR FROM hired) FROM emp
SELECT CAST(id AS DATE) FROM emp
-- instead: SELECT TIMESTAMPADD(DAY, id, DATE '1970-01-01') FROM emp
SELECT SAFE_CAST('1' AS INT)
-- instead: SELECT TRY_CAST('1' AS INT)
SELECT EXTRACT('year' FROM hired) FROM emp
-- instead: SELECT EXTRACT(YEAR FROM hired) FROM emp
SELECT EXTRACT(YEAR, hired) FROM emp
-- instead: SELECT EXTRACT(YEAR FROM hired) FROM emp
SELECT EXTRACT(YEAR FROM name) FROM emp
SELECT EXTRACT(FORTNIGHT FROM hired) FROM emp
SELECT FLOOR(hired TO 'month') FROM emp
-- instead: SELECT FLOOR(hired TO MONTH) FROM emp
SELECT TIMESTAMPADD('DAY', 1, hired) FROM emp
SELECT TIMESTAMPDIFF(hired, hired) FROM emp
SELECT IF(id = 1, 'a') FROM emp
SELECT COALESCE() FROM emp
SELECT COALESCE(id, 'x') FROM emp
-- instead: SELECT COALESCE(CAST(id AS STRING), 'x') FROM emp
SELECT NULLIF(id) FROM emp
SELECT * FROM emp WHERE id > SELECT MAX(id) FROM emp
-- instead: SELECT * FROM emp WHERE id > (SELECT MAX(id) FROM emp)
SELECT EXPLODE(tags) FROM orders
-- instead: SELECT element FROM orders CROSS JOIN UNNEST(tags) AS u (element)
SELECT SUM(salary) FILTER (salary > 1) FROM emp
-- instead: SELECT SUM(salary) FILTER (WHERE salary > 1) FROM emp
SELECT SUM(salary) WHERE dept = 1 FROM emp
SELECT UPPER(DISTINCT name) FROM emp
SELECT UPPER(name) FILTER (WHERE id > 1) FROM emp
SELECT COUNT(DISTINCT *) FROM emp
SELECT * FROM orders /*+ OPTIONS('pth'='x') */
SELECT * FROM orders /*+ OPTION('path'='x') */
SELECT /*+ BROADCST(emp) */ * FROM emp
SELECT JSON_VALUE(name) FROM emp
SELECT JSON_VALUE(name, '$.a[') FROM emp
SELECT JSON_EXTRACT(name, '$.a') FROM emp
-- instead: SELECT JSON_QUERY(name, '$.a') FROM emp
SELECT JSON_OBJECT('a', 1)
-- instead: SELECT JSON_OBJECT('a' VALUE 1)
SELECT REGEXP_EXTRACT(name, '(') FROM emp
SELECT DATE_FORMAT(hired, '%Y-%m') FROM emp
SELECT TO_TIMESTAMP('2020', 'YYYY-MM-DD')
SELECT ARRAY(1, 2)
-- instead: SELECT ARRAY[1, 2]
SELECT ARRAY[1, 'a']
SELECT ROW()
SELECT POSITION('a', name) FROM emp
-- instead: SELECT POSITION('a' IN name) FROM emp
SELECT TRIM(name, 'a') FROM emp
-- instead: SELECT TRIM(BOTH 'a' FROM name) FROM emp
SELECT nextval('s')
SELECT LAST_INSERT_ID()
SELECT VERSION()
SELECT name FROM emp WHERE CONTAINS(name, 'a')
-- instead: SELECT name FROM emp WHERE POSITION('a' IN name) > 0
SELECT NVL(dept, 0) FROM emp
-- instead: SELECT COALESCE(dept, 0) FROM emp
SELECT LENGTH(name) FROM emp
-- instead: SELECT CHAR_LENGTH(name) FROM emp
SELECT SPLIT_PART(name, ',', 2) FROM emp
-- instead: SELECT SPLIT_INDEX(name, ',', 2 - 1) FROM emp
SELECT IIF(id > 1, 'a', 'b') FROM emp
-- instead: SELECT IF(id > 1, 'a', 'b') FROM emp
SELECT COUNT_IF(id > 1) FROM emp
-- instead: SELECT COUNT(*) FILTER (WHERE id > 1) FROM emp
SELECT BOOL_AND(id > 1) FROM emp
-- instead: SELECT MIN(IF(id > 1, 1, 0)) = 1 FROM emp
SELECT REGEXP_LIKE(name, '^A') FROM emp
-- instead: SELECT REGEXP(name, '^A') FROM emp
SELECT STRPOS(name, 'a') FROM emp
-- instead: SELECT POSITION('a' IN name) FROM emp
SELECT POW(id, 2) FROM emp
-- instead: SELECT POWER(id, 2) FROM emp
SELECT DAY(hired) FROM emp
-- instead: SELECT DAYOFMONTH(hired) FROM emp
SELECT ADD_MONTHS(hired, 1) FROM emp
-- instead: SELECT TIMESTAMPADD(MONTH, 1, hired) FROM emp
SELECT ARRAY_LENGTH(tags) FROM orders
-- instead: SELECT CARDINALITY(tags) FROM orders
SELECT ARRAY_TO_STRING(tags, ',') FROM orders
-- instead: SELECT ARRAY_JOIN(tags, ',') FROM orders
SELECT COLLECT_LIST(name) FROM emp
-- instead: SELECT ARRAY_AGG(name) FROM emp
SELECT COLLECT_SET(name) FROM emp
-- instead: SELECT ARRAY_AGG(DISTINCT name) FROM emp
SELECT GEN_RANDOM_UUID()
-- instead: SELECT UUID()
SELECT STARTS_WITH(name, 'A') FROM emp
-- instead: SELECT STARTSWITH(name, 'A') FROM emp
SELECT DATEDIFF('day', hired, CURRENT_DATE) FROM emp
-- instead: SELECT TIMESTAMPDIFF(DAY, hired, CURRENT_DATE) FROM emp
SELECT STRPTIME(name, '%Y') FROM emp
-- instead: SELECT TO_TIMESTAMP(name, 'yyyy-MM-dd HH:mm:ss') FROM emp
SELECT TIMESTAMP_TRUNC(ts, HOUR) FROM orders
-- instead: SELECT FLOOR(ts TO HOUR) FROM orders
SELECT MAX_BY(name, salary) FROM emp
-- instead: SELECT name FROM emp QUALIFY ROW_NUMBER() OVER (PARTITION BY dept ORDER BY salary DESC) = 1
SELECT APPROX_PERCENTILE(salary, 0.9) FROM emp
-- instead: SELECT PERCENTILE(salary, 0.9) FROM emp
SELECT JSON_EXTRACT_SCALAR(name, '$.a') FROM emp
-- instead: SELECT JSON_VALUE(name, '$.a') FROM emp
SELECT TO_NUMBER(name) FROM emp
-- instead: SELECT CAST(name AS DECIMAL(38, 6)) FROM emp
SELECT STRING_TO_ARRAY(name, ',') FROM emp
-- instead: SELECT SPLIT(name, ',') FROM emp
SELECT id ILIKE 'a' FROM emp
SELECT JSON_ARRAY(INTERVAL '1' DAY)
SELECT JSON_OBJECT('a' VALUE ARRAY[INTERVAL '1' DAY])
SELECT JSON_ARRAY(MAP[1, 2])
SELECT TO_TIMESTAMP('03:04', 'hh:mm')
-- instead: SELECT TO_TIMESTAMP('03:04 AM', 'hh:mm a')
SELECT CONVERT_TZ('2024-01-01 00:00:00', 'UTC', 'GMT+19')
-- instead: SELECT CONVERT_TZ('2024-01-01 00:00:00', 'UTC', 'GMT+18')
