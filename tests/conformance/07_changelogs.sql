-- # Changelogs

-- : debezium-json source
SELECT * FROM changes;
-- : aggregation of a changelog
SELECT COUNT(*), SUM(v) FROM changes;
-- : canal-json, maxwell-json, ogg-json
CREATE TABLE x (a INT) WITH ('connector' = 'filesystem', 'path' = 'canal', 'format' = 'canal-json'); SHOW COLUMNS FROM x;
-- : changelog into files
CREATE TABLE x (dept INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'log', 'format' = 'debezium-json'); INSERT INTO x SELECT dept, COUNT(*) FROM emp GROUP BY dept; SELECT * FROM x;
-- : updates into an append-only table
INSERT INTO out SELECT dept, MAX(name) FROM emp GROUP BY dept;
-- : upserts into a table with a key
CREATE TABLE x (dept INT, n BIGINT, PRIMARY KEY (dept) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'c.db', 'table-name' = 'x'); INSERT INTO x SELECT dept, COUNT(*) FROM emp WHERE dept IS NOT NULL GROUP BY dept; SELECT * FROM x;
-- : FROM_CHANGELOG
CREATE VIEW log AS SELECT * FROM (VALUES ('INSERT', 1, 'a'), ('INSERT', 2, 'b'), ('DELETE', 1, 'a')) AS v (op, k, s); SELECT * FROM FROM_CHANGELOG(TABLE log);
-- : TO_CHANGELOG
SELECT * FROM TO_CHANGELOG(TABLE changes);
-- : CONNECTED_COMPONENTS (not in Flink)
SELECT * FROM CONNECTED_COMPONENTS(TABLE emp, DESCRIPTOR(dept, id));
-- : SHORTEST_PATHS (not in Flink)
SELECT * FROM SHORTEST_PATHS(TABLE emp, DESCRIPTOR(dept, id), source => 10);
-- : TRIANGLES (not in Flink)
SELECT * FROM TRIANGLES(TABLE emp, DESCRIPTOR(dept, id));
-- : PAGERANK (not in Flink)
SELECT * FROM PAGERANK(TABLE emp, DESCRIPTOR(id, dept), damping => 0.5, iterations => 3);
-- : LABEL_PROPAGATION (not in Flink)
SELECT * FROM LABEL_PROPAGATION(TABLE emp, DESCRIPTOR(dept, id), iterations => 3);
-- : table.exec.state.ttl
SET 'table.exec.state.ttl' = '1 h'; SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : STATE_TTL hint
SELECT /*+ STATE_TTL('e' = '1d') */ dept, COUNT(*) FROM emp e GROUP BY dept;
-- : rows that state let go as a table (not in Flink)
CREATE TABLE x (a INT) WITH ('connector' = 'datagen'); DESCRIBE `x$expired`;
-- : mini-batch
SET 'table.exec.mini-batch.enabled' = 'true'; SET 'table.exec.mini-batch.allow-latency' = '1 s'; SET 'table.exec.mini-batch.size' = '1000'; SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : table.exec.sink.type-length-enforcer
SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD'; CREATE TABLE x (a STRING) WITH ('connector' = 'filesystem', 'path' = 'lengths', 'format' = 'json'); INSERT INTO x SELECT 'abc'; CREATE TABLE y (a CHAR(2)) WITH ('connector' = 'filesystem', 'path' = 'lengths', 'format' = 'json'); CREATE TABLE z (a CHAR(2)) WITH ('connector' = 'filesystem', 'path' = 'cut', 'format' = 'json'); INSERT INTO z SELECT * FROM y; SELECT * FROM z;
-- : table.exec.sort.default-limit
SET 'execution.runtime-mode' = 'BATCH'; SET 'table.exec.sort.default-limit' = '2'; SELECT * FROM (SELECT a FROM (VALUES (3), (1), (2)) AS t(a) ORDER BY a) WHERE a > 1;
-- : table.exec.sink.not-null-enforcer
SET 'table.exec.sink.not-null-enforcer' = 'DROP'; CREATE TABLE x (a INT NOT NULL) WITH ('connector' = 'filesystem', 'path' = 'notnull', 'format' = 'json'); INSERT INTO x SELECT dept FROM emp; SELECT COUNT(*) FROM x;
