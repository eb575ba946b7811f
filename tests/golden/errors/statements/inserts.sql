INSERT INTO sink VALUES (1, 2, 'x') RETURNING a
INSERT INTO sink (a) VALUES (1)
INSERT sink VALUES (1, 2, 'x')
-- instead: INSERT INTO sink VALUES (1, 2, 'x')
INSERT INTO sink SET a = 1
-- instead: INSERT INTO sink (a, b) VALUES (1, 2)
MERGE INTO sink USING emp ON sink.a = emp.id WHEN MATCHED THEN UPDATE SET b = 1
INSERT INTO nosuch VALUES (1)
INSERT INTO emp VALUES (1)
INSERT INTO sink SELECT id, name FROM emp
INSERT INTO sink SELECT id, salary, name, dept FROM emp
INSERT INTO sink SELECT id, name, salary FROM emp
-- instead: INSERT INTO sink SELECT id, CAST(name AS BIGINT), CAST(salary AS STRING) FROM emp
INSERT INTO sink VALUES (1, 2)
INSERT INTO sink VALUES ('a', 2, 'b')
-- instead: INSERT INTO sink VALUES (CAST('1' AS INT), 2, 'b')
INSERT INTO sink (a, z) VALUES (1, 2)
INSERT INTO sink (a, a) VALUES (1, 2)
INSERT INTO sink (b, s) VALUES (1, 2)
INSERT INTO sink (b, s) SELECT id FROM emp
INSERT INTO sink VALUES 1, 2, 'x'
INSERT INTO sink VALUE (1, 2, 'x')
-- instead: INSERT INTO sink VALUES (1, 2, 'x')
INSERT INTO TABLE sink VALUES (1, 2, 'x')
-- instead: INSERT INTO sink VALUES (1, 2, 'x')
INSERT OR REPLACE INTO sink VALUES (1, 2, 'x')
REPLACE INTO sink VALUES (1, 2, 'x')
INSERT INTO v VALUES (1, 'x')
INSERT INTO orders SELECT * FROM orders
INSERT INTO sink DEFAULT VALUES
INSERT INTO sink VALUES (DEFAULT, 2, 'x')
INSERT INTO filesink SELECT dept, 'x' FROM emp GROUP BY dept
-- instead: INSERT INTO filesink SELECT CAST(COUNT(*) AS INT), 'x' FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
INSERT INTO filesink SELECT a.id, b.name FROM emp a LEFT JOIN emp b ON a.mgr = b.id
INSERT INTO keyed SELECT name, COUNT(*) FROM emp GROUP BY name
INSERT INTO sink VALUES (1, 2, 'x') ON CONFLICT (a) DO UPDATE SET b = 3
INSERT INTO sink VALUES (1, 2, 'x') ON DUPLICATE KEY UPDATE b = 3
INSERT INTO keyed (id) BY NAME SELECT id FROM emp
-- instead: INSERT INTO keyed BY NAME SELECT id FROM emp
INSERT INTO keyed BY NAME SELECT salary, id FROM emp
-- instead: INSERT INTO keyed BY NAME SELECT CAST(salary AS BIGINT) AS n, id FROM emp
INSERT OR IGNORE INTO keyed SELECT id, 1 FROM emp
INSERT OR REPLACE INTO keyed SELECT id, 1 FROM emp
UPDATE filesink SET s = dname FROM dept WHERE dept.id = filesink.id
-- instead: UPDATE filesink SET s = (SELECT dname FROM dept WHERE dept.id = filesink.id)
DELETE FROM filesink USING dept WHERE dept.id = filesink.id
-- instead: DELETE FROM filesink WHERE id IN (SELECT id FROM dept)
DELETE FROM filesink WHERE id = 1 RETURNING *
