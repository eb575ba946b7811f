-- # Joins

-- : INNER JOIN
SELECT e.name, d.dname FROM emp e JOIN dept d ON e.dept = d.id;
-- : LEFT JOIN
SELECT e.name, d.dname FROM emp e LEFT JOIN dept d ON e.dept = d.id WHERE d.id IS NULL;
-- : RIGHT JOIN
SELECT e.name, d.dname FROM emp e RIGHT JOIN dept d ON e.dept = d.id WHERE e.id IS NULL;
-- : FULL JOIN
SELECT e.name, d.dname FROM emp e FULL OUTER JOIN dept d ON e.dept = d.id WHERE e.id IS NULL OR d.id IS NULL;
-- : CROSS JOIN
SELECT COUNT(*) FROM emp CROSS JOIN dept;
-- : comma join
SELECT e.name FROM emp e, dept d WHERE e.dept = d.id AND d.dname = 'Tech';
-- : USING
SELECT id, name, dname FROM emp FULL JOIN dept USING (id) WHERE id < 2;
-- : NATURAL JOIN
SELECT * FROM dept NATURAL JOIN (SELECT 10 AS id, 'x' AS note) n;
-- : non-equi join
SELECT a.name, b.name FROM emp a JOIN emp b ON a.salary < b.salary AND a.dept = b.dept;
-- : LEFT SEMI JOIN (not in Flink)
SELECT dname FROM dept LEFT SEMI JOIN emp ON emp.dept = dept.id;
-- : LEFT ANTI JOIN (not in Flink)
SELECT dname FROM dept LEFT ANTI JOIN emp ON emp.dept = dept.id;
-- : self join
SELECT a.name, b.name FROM emp a JOIN emp b ON a.id = b.id + 1;
-- : interval join
SELECT o.id, t.id FROM orders o JOIN trades t ON o.id = t.id AND t.ts BETWEEN o.ts - INTERVAL '10' SECOND AND o.ts + INTERVAL '10' SECOND;
-- : LEFT interval join
SELECT o.id, t.id FROM orders o LEFT JOIN trades t ON o.id = t.id AND t.ts BETWEEN o.ts AND o.ts + INTERVAL '1' SECOND;
-- : temporal join on a versioned table
SELECT t.id, t.amount * r.rate AS yen FROM trades t JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
-- : LEFT temporal join
SELECT t.id, r.rate FROM trades t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
-- : temporal join on a versioned view
CREATE VIEW last_rates AS SELECT currency, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY ts DESC) AS n FROM rates_log) WHERE n = 1; SELECT t.id, r.rate FROM trades t JOIN last_rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
-- : LATERAL SNAPSHOT
SELECT t.id, r.rate FROM trades t LEFT JOIN LATERAL SNAPSHOT(input => TABLE rates, on_time => DESCRIPTOR(ts)) AS r ON t.currency = r.currency;
-- : lookup join
SELECT o.id, d.dname FROM orders o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id;
-- : window join
SELECT a.id, b.id, a.window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) a JOIN (SELECT * FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND))) b ON a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end;
-- : window semi join
SELECT a.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) a WHERE a.id IN (SELECT b.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' SECOND))) b WHERE a.window_start = b.window_start AND a.window_end = b.window_end);
-- : ASOF JOIN
SELECT * FROM trades t ASOF JOIN rates r MATCH_CONDITION t.ts >= r.ts ON t.currency = r.currency;
-- : table function on the right
CREATE TEMPORARY FUNCTION letters AS 'functions.letters' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT id, letter FROM emp LEFT JOIN LATERAL TABLE(letters(NULLIF(name, 'Bob'))) AS x (letter) ON TRUE WHERE id < 3;
