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
-- : table.exec.state.ttl
SET 'table.exec.state.ttl' = '1 h'; SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : STATE_TTL hint
SELECT /*+ STATE_TTL('e' = '1d') */ dept, COUNT(*) FROM emp e GROUP BY dept;
-- : mini-batch
SET 'table.exec.mini-batch.enabled' = 'true'; SET 'table.exec.mini-batch.allow-latency' = '1 s'; SET 'table.exec.mini-batch.size' = '1000'; SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : table.exec.sink.not-null-enforcer
SET 'table.exec.sink.not-null-enforcer' = 'DROP'; CREATE TABLE x (a INT NOT NULL) WITH ('connector' = 'filesystem', 'path' = 'notnull', 'format' = 'json'); INSERT INTO x SELECT dept FROM emp; SELECT COUNT(*) FROM x;
