SELECT customer, SUM(qty * price) AS revenue FROM orders GROUP BY customer
SELECT CAST(ordered AS DATE) AS d, COUNT(*), SUM(qty * price), MAX(price) FROM orders GROUP BY CAST(ordered AS DATE)
SELECT EXTRACT(YEAR FROM ordered) * 100 + EXTRACT(MONTH FROM ordered) AS ym, COUNT(DISTINCT customer) FROM orders GROUP BY EXTRACT(YEAR FROM ordered) * 100 + EXTRACT(MONTH FROM ordered)
SELECT FLOOR(ordered TO MONTH) AS m, SUM(qty) FROM orders GROUP BY FLOOR(ordered TO MONTH) -- duckdb: SELECT CAST(DATE_TRUNC('month', ordered) AS TIMESTAMP), SUM(qty) FROM orders GROUP BY ALL
SELECT id, customer, SUM(qty) OVER (PARTITION BY customer ORDER BY ordered, id) AS running FROM orders
SELECT product, 100 * CAST(SUM(qty) AS DOUBLE) / (SELECT SUM(qty) FROM orders) AS share FROM orders GROUP BY product
SELECT product, 100 * CAST(SUM(qty) AS DOUBLE) / SUM(SUM(qty)) OVER () FROM orders GROUP BY product
SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) >= 3 AND COUNT(DISTINCT product) > 1
SELECT customer FROM orders WHERE product IN ('tea', 'cup') GROUP BY customer HAVING COUNT(DISTINCT product) = 2
SELECT customer FROM orders WHERE product = 'tea' EXCEPT SELECT customer FROM orders WHERE product = 'pot'
SELECT customer, SUM(CASE WHEN product = 'tea' THEN qty ELSE 0 END) AS tea, SUM(CASE product WHEN 'cup' THEN qty END) AS cups, COUNT(CASE WHEN note IS NULL THEN 1 END) FROM orders GROUP BY customer
SELECT customer, id FROM (SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ordered, id) AS n FROM orders) WHERE n = 1
SELECT o.customer, o.id, o.ordered FROM orders o JOIN (SELECT customer, MAX(ordered) AS latest FROM orders GROUP BY customer) l ON o.customer = l.customer AND o.ordered = l.latest
SELECT id, TIMESTAMPDIFF(SECOND, LAG(ordered) OVER (PARTITION BY customer ORDER BY ordered, id), ordered) FROM orders -- duckdb: SELECT id, DATESUB('second', LAG(ordered) OVER (PARTITION BY customer ORDER BY ordered, id), ordered) FROM orders
SELECT customer, session, COUNT(*), MIN(ordered), MAX(ordered) FROM (SELECT customer, ordered, SUM(is_new) OVER (PARTITION BY customer ORDER BY ordered, id) AS session FROM (SELECT *, CASE WHEN ordered > LAG(ordered) OVER (PARTITION BY customer ORDER BY ordered, id) + INTERVAL '1' DAY THEN 1 ELSE 0 END AS is_new FROM orders)) GROUP BY customer, session
SELECT grp, MIN(k), MAX(k), COUNT(*) FROM (SELECT k, k - ROW_NUMBER() OVER (ORDER BY k) AS grp FROM (SELECT DISTINCT qty AS k FROM orders) a) b GROUP BY grp
SELECT id, AVG(CAST(price AS DOUBLE)) OVER (ORDER BY ordered, id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), MAX(price) OVER (PARTITION BY product ORDER BY ordered, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) FROM orders
SELECT id, SUM(qty) OVER (ORDER BY ordered RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW) FROM orders
SELECT product, AVG(CAST(price AS DOUBLE)), STDDEV_SAMP(CAST(price AS DOUBLE)), MAX(price) - MIN(price) FROM orders GROUP BY product
SELECT product, price, RANK() OVER (PARTITION BY product ORDER BY price DESC), DENSE_RANK() OVER (PARTITION BY product ORDER BY price DESC) FROM orders
SELECT band, COUNT(*), SUM(qty) FROM orders JOIN (VALUES ('low', 0, 5), ('mid', 5, 20), ('high', 20, 1000)) AS b(band, lo, hi) ON price >= lo AND price < hi GROUP BY band
SELECT d.day, COALESCE(SUM(o.qty), 0) AS sold FROM (VALUES (DATE '2024-01-05'), (DATE '2024-01-06'), (DATE '2024-02-29')) AS d(day) LEFT JOIN orders o ON CAST(o.ordered AS DATE) = d.day GROUP BY d.day
SELECT COALESCE(product, 'all'), COALESCE(customer, 'all'), SUM(qty) FROM orders WHERE customer IS NOT NULL GROUP BY ROLLUP (product, customer)
SELECT quartile, COUNT(*), MIN(price), MAX(price) FROM (SELECT price, NTILE(4) OVER (ORDER BY price, id) AS quartile FROM orders) GROUP BY quartile
SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id AND b.ordered BETWEEN a.ordered AND a.ordered + INTERVAL '2' DAY
SELECT product, COUNT(*) FILTER (WHERE qty > 1) AS many, SUM(price) FILTER (WHERE note LIKE '%gift%') FROM orders GROUP BY product
SELECT id, UPPER(TRIM(note)), CHAR_LENGTH(note), POSITION('i' IN note), REPLACE(note, ' ', '_') FROM orders -- duckdb: SELECT id, UPPER(TRIM(note)), LENGTH(note), POSITION('i' IN note), REPLACE(note, ' ', '_') FROM orders
SELECT id, LEFT(product, 2), RIGHT(product, 1), LPAD(product, 5, '*'), RPAD(product, 2, '-'), REVERSE(product), REPEAT(product, 2), SUBSTRING(product, 2, 1), SUBSTR(product, -2) FROM orders
SELECT id, SPLIT_INDEX(note, ' ', 0), REGEXP_REPLACE(note, '[aeiou]', '#'), REGEXP_EXTRACT(note, '([a-z]+) ([a-z]+)', 2) FROM orders WHERE note LIKE '% %' -- duckdb: SELECT id, SPLIT_PART(note, ' ', 1), REGEXP_REPLACE(note, '[aeiou]', '#', 'g'), NULLIF(REGEXP_EXTRACT(note, '([a-z]+) ([a-z]+)', 2), '') FROM orders WHERE note LIKE '% %'
SELECT id FROM orders WHERE note LIKE '50!% %' ESCAPE '!' OR note SIMILAR TO '(a|b)%' -- duckdb: SELECT id FROM orders WHERE note LIKE '50!% %' ESCAPE '!' OR note LIKE 'a%' OR note LIKE 'b%'
SELECT id, customer || ':' || product, CONCAT_WS('/', customer, product, note) FROM orders
SELECT id, ROUND(price, 1), ROUND(price), FLOOR(price), CEIL(price), ABS(-price), MOD(qty, 2), POWER(qty, 2), SQRT(qty), SIGN(qty - 2), TRUNCATE(CAST(price AS DOUBLE), 1) FROM orders -- duckdb: SELECT id, ROUND(price, 1), ROUND(price), FLOOR(price), CEIL(price), ABS(-price), MOD(qty, 2), POWER(qty, 2), SQRT(qty), SIGN(qty - 2), TRUNC(CAST(price AS DOUBLE) * 10) / 10 FROM orders
SELECT id, price / qty, qty * price * 1.19, price + qty, CAST(price * qty AS DECIMAL(10, 1)), CAST(price AS INT) FROM orders WHERE qty > 0 -- duckdb: SELECT id, CAST(price AS DOUBLE) / qty, qty * price * 1.19, price + qty, CAST(price * qty AS DECIMAL(10, 1)), CAST(TRUNC(price) AS INT) FROM orders WHERE qty > 0
SELECT id, ordered + INTERVAL '1' MONTH, ordered - INTERVAL '90' MINUTE, CAST(ordered AS DATE) + INTERVAL '1' YEAR, CAST(ordered AS DATE) - INTERVAL '1' DAY FROM orders -- duckdb: SELECT id, ordered + INTERVAL 1 MONTH, ordered - INTERVAL 90 MINUTE, CAST(CAST(ordered AS DATE) + INTERVAL 1 YEAR AS DATE), CAST(CAST(ordered AS DATE) - INTERVAL 1 DAY AS DATE) FROM orders
SELECT id, EXTRACT(DAY FROM ordered), EXTRACT(HOUR FROM ordered), EXTRACT(QUARTER FROM ordered), EXTRACT(WEEK FROM ordered), EXTRACT(DOY FROM ordered), EXTRACT(EPOCH FROM ordered), EXTRACT(ISODOW FROM ordered) FROM orders -- duckdb: SELECT id, EXTRACT(DAY FROM ordered), EXTRACT(HOUR FROM ordered), EXTRACT(QUARTER FROM ordered), EXTRACT(WEEK FROM ordered), EXTRACT(DOY FROM ordered), FLOOR(EXTRACT(EPOCH FROM ordered)), EXTRACT(ISODOW FROM ordered) FROM orders
SELECT DAYOFWEEK(CAST(ordered AS DATE)), YEAR(CAST(ordered AS DATE)), MONTH(CAST(ordered AS DATE)), HOUR(ordered) FROM orders -- duckdb: SELECT DAYOFWEEK(ordered) + 1, YEAR(ordered), MONTH(ordered), HOUR(ordered) FROM orders
SELECT DATE_FORMAT(ordered, 'yyyy-MM'), COUNT(*) FROM orders GROUP BY DATE_FORMAT(ordered, 'yyyy-MM') -- duckdb: SELECT STRFTIME(ordered, '%Y-%m'), COUNT(*) FROM orders GROUP BY ALL
SELECT customer, COUNT(*) FROM orders WHERE ordered >= TIMESTAMP '2024-01-01 00:00:00' AND ordered < TIMESTAMP '2024-02-01 00:00:00' GROUP BY customer ORDER BY COUNT(*) DESC, customer LIMIT 2
SELECT CAST(id AS STRING) || '-' || CAST(qty AS STRING), CAST('12' AS INT) + id, TRY_CAST(note AS INT), CAST(price AS STRING), CAST(ordered AS STRING) FROM orders -- duckdb: SELECT CAST(id AS STRING) || '-' || CAST(qty AS STRING), CAST('12' AS INT) + id, TRY_CAST(note AS INT), CAST(price AS STRING), STRFTIME(ordered, '%Y-%m-%d %H:%M:%S.%g') FROM orders
SELECT id, GREATEST(qty, 2), LEAST(qty, 2), COALESCE(note, customer, 'none'), IFNULL(note, '-'), NULLIF(qty, 1), CASE WHEN note IS NULL THEN 'no' ELSE 'yes' END FROM orders
SELECT product, MAX(note), MIN(note), COUNT(note), COUNT(*) FROM orders GROUP BY product HAVING MAX(note) IS NOT NULL
SELECT customer, product, SUM(qty) FROM orders GROUP BY customer, product HAVING SUM(qty) = (SELECT MAX(s) FROM (SELECT SUM(qty) AS s FROM orders o WHERE o.customer = orders.customer GROUP BY o.product) x)
SELECT o.id, (SELECT COUNT(*) FROM orders p WHERE p.customer = o.customer AND p.ordered < o.ordered) AS earlier FROM orders o
SELECT o.id FROM orders o WHERE o.price > (SELECT AVG(CAST(p.price AS DOUBLE)) FROM orders p WHERE p.product = o.product)
SELECT c.customer, p.product FROM (SELECT DISTINCT customer FROM orders) c CROSS JOIN (SELECT DISTINCT product FROM orders) p WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.customer AND o.product = p.product)
SELECT customer FROM orders o GROUP BY customer HAVING COUNT(DISTINCT product) = (SELECT COUNT(DISTINCT product) FROM orders)
WITH monthly AS (SELECT FLOOR(ordered TO MONTH) AS m, SUM(qty) AS q FROM orders GROUP BY FLOOR(ordered TO MONTH)) SELECT a.m, a.q, b.q, a.q - b.q FROM monthly a LEFT JOIN monthly b ON a.m = b.m + INTERVAL '1' MONTH -- duckdb: WITH monthly AS (SELECT DATE_TRUNC('month', ordered) AS m, SUM(qty) AS q FROM orders GROUP BY ALL) SELECT a.m, a.q, b.q, a.q - b.q FROM monthly a LEFT JOIN monthly b ON a.m = b.m + INTERVAL '1' MONTH
WITH firsts AS (SELECT customer, MIN(CAST(ordered AS DATE)) AS f FROM orders GROUP BY customer) SELECT f.f, COUNT(DISTINCT o.customer), COUNT(*) FROM orders o JOIN firsts f ON f.customer = o.customer GROUP BY f.f
SELECT product, price, LAST_VALUE(price) OVER (PARTITION BY product ORDER BY ordered, id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING), LEAD(ordered) OVER (PARTITION BY product ORDER BY ordered, id) FROM orders
SELECT customer, ordered, CASE WHEN product <> LAG(product, 1, 'none') OVER (PARTITION BY customer ORDER BY ordered, id) THEN 'switch' ELSE 'same' END FROM orders
SELECT 'orders' AS kind, COUNT(*) AS n FROM orders UNION ALL SELECT 'customers', COUNT(DISTINCT customer) FROM orders UNION ALL SELECT product, SUM(qty) FROM orders GROUP BY product
SELECT COUNT(*) FROM (SELECT customer FROM orders INTERSECT SELECT name FROM emp) x
SELECT e.name, COUNT(o.id), COALESCE(SUM(o.price), 0) FROM emp e LEFT JOIN orders o ON LOWER(e.name) = o.customer GROUP BY e.name
SELECT e.name, m.name, g.name FROM emp e LEFT JOIN emp m ON e.mgr = m.id LEFT JOIN emp g ON m.mgr = g.id
SELECT p1.product, p2.product, COUNT(*) FROM orders p1 JOIN orders p2 ON p1.customer = p2.customer AND p1.product < p2.product GROUP BY p1.product, p2.product
SELECT TRIM(BOTH '5' FROM note), TRIM(LEADING 'g' FROM note), LTRIM(note), RTRIM(note), LOWER(note) FROM orders -- duckdb: SELECT TRIM(note, '5'), LTRIM(note, 'g'), LTRIM(note), RTRIM(note), LOWER(note) FROM orders
SELECT id, ASCII(product), CHR(65 + qty), MD5(product), SHA256(product), HEX(qty), TO_BASE64(product) FROM orders -- duckdb: SELECT id, ASCII(product), CHR(65 + qty), MD5(product), SHA256(product), PRINTF('%X', qty), TO_BASE64(ENCODE(product)) FROM orders
SELECT id, JSON_VALUE('{"a": [1, {"b": "x"}]}', '$.a[1].b'), JSON_VALUE('{"a": 5}', '$.a' RETURNING INT) + qty FROM orders -- duckdb: SELECT id, 'x', 5 + qty FROM orders
SELECT DISTINCT customer, FIRST_VALUE(product) OVER (PARTITION BY customer ORDER BY ordered, id) FROM orders
SELECT product, SUM(qty) AS s FROM orders GROUP BY product ORDER BY s DESC, product LIMIT 2 OFFSET 1
SELECT customer, AVG(qty) OVER w, COUNT(*) OVER w FROM orders WINDOW w AS (PARTITION BY product ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) -- duckdb: SELECT customer, CAST(TRUNC(AVG(qty) OVER w) AS INT), COUNT(*) OVER w FROM orders WINDOW w AS (PARTITION BY product ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
SELECT id, who.name, who.city, props['x'], pages[1], CARDINALITY(pages), CARDINALITY(props) FROM visits
SELECT id, page, number FROM visits CROSS JOIN UNNEST(pages) WITH ORDINALITY AS u(page, number) -- duckdb: SELECT id, UNNEST(pages), UNNEST(RANGE(1, LEN(pages) + 1)) FROM visits
SELECT page, COUNT(*), COUNT(DISTINCT id) FROM visits, UNNEST(pages) AS u(page) GROUP BY page -- duckdb: SELECT page, COUNT(*), COUNT(DISTINCT id) FROM (SELECT id, UNNEST(pages) AS page FROM visits) GROUP BY page
SELECT v.id, l.page FROM visits v LEFT JOIN LATERAL (SELECT page FROM UNNEST(v.pages) AS u(page) WHERE page <> 'a') l ON TRUE -- duckdb: SELECT v.id, l.page FROM visits v LEFT JOIN LATERAL (SELECT page FROM (SELECT UNNEST(v.pages) AS page) WHERE page <> 'a') l ON TRUE
SELECT v.id, l.page FROM visits v CROSS JOIN LATERAL (SELECT UPPER(page) AS page FROM UNNEST(v.pages) AS u(page) WHERE page <> 'a' AND v.id > 1) l -- duckdb: SELECT id, UPPER(page) FROM (SELECT id, UNNEST(pages) AS page FROM visits) WHERE page <> 'a' AND id > 1
SELECT v.id, (SELECT MAX(page) FROM UNNEST(v.pages) AS u(page)) FROM visits v -- duckdb: SELECT id, LIST_MAX(pages) FROM visits
SELECT v.id FROM visits v WHERE EXISTS (SELECT 1 FROM UNNEST(v.pages) AS u(page) WHERE page = 'b') -- duckdb: SELECT id FROM visits WHERE LIST_CONTAINS(pages, 'b')
SELECT v.id FROM visits v WHERE 'b' IN (SELECT page FROM UNNEST(v.pages) AS u(page)) -- duckdb: SELECT id FROM visits WHERE LIST_CONTAINS(pages, 'b')
SELECT id, ARRAY_CONTAINS(pages, 'b'), ARRAY_POSITION(pages, 'b'), ARRAY_JOIN(pages, '+'), ARRAY_REVERSE(pages), ARRAY_CONCAT(pages, ARRAY['z']) FROM visits -- duckdb: SELECT id, LIST_CONTAINS(pages, 'b'), COALESCE(LIST_POSITION(pages, 'b'), CASE WHEN pages IS NOT NULL THEN 0 END), ARRAY_TO_STRING(pages, '+'), LIST_REVERSE(pages), CASE WHEN pages IS NOT NULL THEN LIST_CONCAT(pages, ['z']) END FROM visits
SELECT pages, COUNT(*) FROM visits GROUP BY pages
SELECT DISTINCT who FROM visits
SELECT who.city, COUNT(*) FROM visits GROUP BY who.city
SELECT COUNT(DISTINCT pages), COUNT(DISTINCT who) FROM visits
SELECT a.id, b.id FROM visits a JOIN visits b ON a.pages = b.pages AND a.id < b.id
SELECT id FROM visits WHERE pages = ARRAY['a', 'b'] OR who = ROW('Ann', 'Rome') -- duckdb: SELECT id FROM visits WHERE pages = ['a', 'b'] OR who = ROW('Ann', 'Rome')
SELECT who, pages FROM visits UNION SELECT who, pages FROM visits
SELECT id, ROW_NUMBER() OVER (PARTITION BY pages ORDER BY id) FROM visits
SELECT id, CASE WHEN id > 2 THEN pages ELSE ARRAY['none'] END, COALESCE(pages, ARRAY['empty']) FROM visits -- duckdb: SELECT id, CASE WHEN id > 2 THEN pages ELSE ['none'] END, COALESCE(pages, ['empty']) FROM visits
SELECT id, MAP_KEYS(props), MAP_VALUES(props), k, v FROM visits CROSS JOIN UNNEST(props) AS u(k, v) -- duckdb: SELECT id, MAP_KEYS(props), MAP_VALUES(props), e.key, e.value FROM (SELECT *, UNNEST(MAP_ENTRIES(props)) AS e FROM visits)
SELECT id, pages = ARRAY['a', 'b'], who <> ROW('Ann', 'Rome'), pages IS DISTINCT FROM ARRAY['a', 'b'], ARRAY[pages] = ARRAY[pages], ARRAY[id, NULL] = ARRAY[1, NULL] FROM visits -- duckdb: SELECT id, pages = ['a', 'b'], who <> ROW('Ann', 'Rome'), pages IS DISTINCT FROM ['a', 'b'], TRUE, id = 1 FROM visits
SELECT who, pages, COUNT(*), MAX(id) FROM visits GROUP BY GROUPING SETS ((who, pages), (who), ())
SELECT a.id, b.id FROM visits a LEFT JOIN visits b ON a.who = b.who AND a.id <> b.id
SELECT a.id, b.id FROM visits a FULL JOIN visits b ON a.pages IS NOT DISTINCT FROM b.pages AND a.id < b.id
SELECT id FROM visits WHERE pages IN (SELECT pages FROM visits GROUP BY pages HAVING COUNT(*) > 1)
SELECT pages FROM visits EXCEPT SELECT pages FROM visits WHERE id = 1
SELECT id FROM (SELECT id, who, RANK() OVER (PARTITION BY who ORDER BY id DESC) AS r FROM visits) WHERE r = 1
SELECT id, (SELECT SUM(v) FROM UNNEST(props) AS u(k, v) WHERE k <> 'z') FROM visits -- duckdb: SELECT id, NULLIF(LIST_SUM(MAP_VALUES(MAP_FROM_ENTRIES(LIST_FILTER(MAP_ENTRIES(props), lambda e: e.key <> 'z')))), NULL) FROM visits
SELECT v.id, l.page, l.n FROM visits v LEFT JOIN LATERAL (SELECT page, n FROM UNNEST(v.pages) WITH ORDINALITY AS u(page, n)) l ON TRUE -- duckdb: SELECT id, UNNEST(CASE WHEN LEN(pages) > 0 THEN pages ELSE [NULL] END), UNNEST(CASE WHEN LEN(pages) > 0 THEN RANGE(1, LEN(pages) + 1) ELSE [NULL] END) FROM visits
SELECT id FROM visits WHERE pages IN (ARRAY['a', 'b'], ARRAY['b', 'a', 'a']) OR who NOT IN (ROW('Ann', 'Rome'), ROW('Bob', 'Oslo')) -- duckdb: SELECT id FROM visits WHERE pages IN (['a', 'b'], ['b', 'a', 'a']) OR who NOT IN (ROW('Ann', 'Rome'), ROW('Bob', 'Oslo'))
SELECT COUNT(*), MAX(id) FROM visits a JOIN (SELECT pages, who FROM visits WHERE id < 4) b USING (pages, who)
