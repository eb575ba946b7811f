-- # Statements
-- STOP JOB, DESCRIBE JOB, SHOW CHECKPOINTS, SHOW LEDGER, EXPLAIN STATE FOR JOB, EXPLAIN UPGRADE and CANARY take the id of a job: [checkpoints.md](../checkpoints.md), [why.md](../why.md), [state.md](../state.md#how-fast-the-state-of-a-job-grows), [changed.md](changed.md).

-- : CREATE TABLE
CREATE TABLE x (a INT, b STRING COMMENT 'text', c AS a + 1) COMMENT 'made' WITH ('connector' = 'blackhole'); DESCRIBE x;
-- : CREATE TEMPORARY TABLE
CREATE TEMPORARY TABLE x (a INT) WITH ('connector' = 'blackhole'); SHOW TABLES LIKE 'x';
-- : CREATE TABLE … IF NOT EXISTS
CREATE TABLE IF NOT EXISTS emp (a INT) WITH ('connector' = 'blackhole'); SELECT COUNT(*) FROM emp;
-- : PRIMARY KEY … NOT ENFORCED
CREATE TABLE x (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'blackhole'); DESCRIBE x;
-- : WATERMARK
CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen'); DESCRIBE x;
-- : PARTITIONED BY
CREATE TABLE x (a INT, day STRING) PARTITIONED BY (day) WITH ('connector' = 'filesystem', 'path' = 'parts', 'format' = 'json'); INSERT INTO x VALUES (1, 'mon'), (2, 'tue'); SELECT * FROM x WHERE day = 'tue';
-- : DISTRIBUTED BY
CREATE TABLE x (a INT) DISTRIBUTED BY HASH (a) INTO 4 BUCKETS WITH ('connector' = 'blackhole');
-- : metadata columns
CREATE TABLE x (a INT, f STRING METADATA FROM 'file.name' VIRTUAL) WITH ('connector' = 'filesystem', 'path' = 'metadata', 'format' = 'json'); INSERT INTO x VALUES (1); SELECT a, CHAR_LENGTH(f) > 0 FROM x;
-- : PROCTIME() column
CREATE TABLE x (a INT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '2'); SELECT COUNT(p) FROM x;
-- : CREATE TABLE … LIKE
CREATE TABLE x WITH ('connector' = 'blackhole') LIKE emp (EXCLUDING OPTIONS); DESCRIBE x;
-- : CREATE TABLE … AS
CREATE TABLE x WITH ('connector' = 'filesystem', 'path' = 'ctas', 'format' = 'json') AS SELECT id, name FROM emp WHERE id < 3; SELECT * FROM x;
-- : CREATE OR REPLACE TABLE … AS
CREATE OR REPLACE TABLE x WITH ('connector' = 'blackhole') AS SELECT id FROM emp; DESCRIBE x;
-- : REPLACE TABLE … AS
CREATE TABLE x (a INT) WITH ('connector' = 'blackhole'); REPLACE TABLE x WITH ('connector' = 'blackhole') AS SELECT name FROM emp; DESCRIBE x;
-- : CREATE MATERIALIZED TABLE
CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' MINUTE AS SELECT id FROM emp;
-- : CREATE VIEW
CREATE VIEW w (n) AS SELECT name FROM emp WHERE id = 1; SELECT * FROM w;
-- : CREATE TEMPORARY VIEW
CREATE TEMPORARY VIEW w AS SELECT name FROM emp WHERE id = 2; SELECT * FROM w;
-- : CREATE FUNCTION
CREATE FUNCTION f AS 'com.example.F';
-- : CREATE FUNCTION … LANGUAGE PYTHON
CREATE FUNCTION initial AS 'functions.initial' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT initial(name) FROM emp;
-- : CREATE CATALOG
CREATE CATALOG c WITH ('type' = 'generic_in_memory'); SHOW CATALOGS;
-- : CREATE DATABASE
CREATE DATABASE d COMMENT 'second' WITH ('k' = 'v'); SHOW DATABASES;
-- : CREATE MODEL
CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'python', 'class' = 'functions.Twice', 'files' = 'functions.py'); DESCRIBE MODEL m; SHOW CREATE MODEL m; SHOW MODELS;
-- : CREATE MODEL … AS
CREATE MODEL m WITH ('algorithm' = 'linear-regression', 'label' = 'y', 'weights.path' = 'w.json') AS SELECT 1.0 AS x, 2.0 AS y; SELECT feature FROM m$weights; SELECT y FROM ML_PREDICT(TABLE (SELECT 1E0 AS x), MODEL m, DESCRIPTOR(x));
-- : ALTER MODEL, DROP MODEL
CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'python', 'class' = 'functions.Twice', 'files' = 'functions.py'); ALTER MODEL m SET ('batch-size' = '10'); ALTER MODEL m RESET ('batch-size'); ALTER MODEL m RENAME TO n; DROP MODEL n;
-- : ML_EVALUATE
CREATE TEMPORARY MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'python', 'class' = 'functions.Twice', 'files' = 'functions.py'); SELECT `rows`, mae, rmse FROM ML_EVALUATE(TABLE emp, MODEL m, DESCRIPTOR(id), DESCRIPTOR(id), 'regression');
-- : VECTOR_SEARCH
SELECT e.id, d.id AS near, ROUND(score, 1) FROM emp AS e, LATERAL TABLE(VECTOR_SEARCH(TABLE (SELECT id, ARRAY[1E0 * id] AS v FROM emp), DESCRIPTOR(v), ARRAY[1E0 * e.id], 2, MAP['metric', 'l2'])) AS d (id, v, score) WHERE e.id = 1;
-- : ML_PREDICT
CREATE TEMPORARY MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'python', 'class' = 'functions.Twice', 'files' = 'functions.py'); SELECT id, b FROM ML_PREDICT(TABLE emp, MODEL m, DESCRIPTOR(id)); SELECT id, b FROM ML_PREDICT(INPUT => TABLE emp, MODEL => MODEL m, ARGS => DESCRIPTOR(id), CONFIG => MAP['async', 'false']);
-- : CREATE CONNECTION
CREATE CONNECTION c WITH ('type' = 'x');
-- : ALTER TABLE … RENAME TO
CREATE TABLE x (a INT) WITH ('connector' = 'blackhole'); ALTER TABLE x RENAME TO y; SHOW TABLES LIKE 'y';
-- : ALTER TABLE … ADD, MODIFY, DROP, RENAME
CREATE TABLE x (a INT, b INT) WITH ('connector' = 'blackhole'); ALTER TABLE x ADD (c STRING, d INT FIRST); ALTER TABLE x MODIFY b BIGINT; ALTER TABLE x DROP d; ALTER TABLE x RENAME a TO k; DESCRIBE x;
-- : ALTER TABLE … SET, RESET
CREATE TABLE x (a INT) WITH ('connector' = 'datagen'); ALTER TABLE x SET ('number-of-rows' = '3'); SELECT COUNT(*) FROM x;
-- : ALTER TABLE … ADD PARTITION
ALTER TABLE emp ADD PARTITION (dept = 10);
-- : ALTER VIEW … AS
CREATE VIEW w AS SELECT 1 AS a; ALTER VIEW w AS SELECT 2 AS a; SELECT * FROM w;
-- : ALTER DATABASE
CREATE DATABASE d; ALTER DATABASE d SET ('k' = 'v');
-- : ALTER CATALOG
CREATE CATALOG c WITH ('type' = 'generic_in_memory'); ALTER CATALOG c SET ('default-database' = 'd'); ALTER CATALOG c COMMENT 'mine'; DESCRIBE CATALOG EXTENDED c;
-- : CREATE FUNCTION of a process table function
CREATE FUNCTION numbered AS 'functions.Numbered' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT * FROM numbered(input => TABLE emp PARTITION BY dept, uid => 'numbers');
-- : side outputs of a process table function
CREATE FUNCTION numbered AS 'functions.Numbered' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT * FROM numbered(input => TABLE emp PARTITION BY dept, output => 'second');
-- : changes of rows by a process table function
CREATE FUNCTION last AS 'functions.Last' LANGUAGE PYTHON USING FILE 'functions.py'; SELECT * FROM last(input => TABLE emp PARTITION BY dept);
-- : ALTER FUNCTION
ALTER FUNCTION f AS 'com.example.F';
-- : DROP TABLE, DROP VIEW
CREATE VIEW w AS SELECT 1; DROP VIEW w; DROP TABLE emp; SHOW TABLES LIKE 'emp';
-- : DROP DATABASE … CASCADE
CREATE DATABASE d; DROP DATABASE d CASCADE; SHOW DATABASES;
-- : DROP CATALOG
CREATE CATALOG c WITH ('type' = 'generic_in_memory'); DROP CATALOG c; SHOW CATALOGS;
-- : DROP FUNCTION
DROP FUNCTION IF EXISTS f;
-- : INSERT INTO
INSERT INTO out (id, s) VALUES (1, 'a'), (2, 'b'); SELECT * FROM out;
-- : INSERT INTO … PARTITION
CREATE TABLE x (a INT, day STRING) PARTITIONED BY (day) WITH ('connector' = 'filesystem', 'path' = 'static', 'format' = 'json'); INSERT INTO x PARTITION (day = 'mon') SELECT id FROM emp WHERE id = 1; SELECT * FROM x;
-- : INSERT OVERWRITE
INSERT INTO out VALUES (1, 'old'); INSERT OVERWRITE out VALUES (9, 'new'); SELECT * FROM out;
-- : INSERT … WITH BACKFILL
CREATE TABLE x (dept INT, n BIGINT, PRIMARY KEY (dept) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'h.db', 'table-name' = 'x'); INSERT INTO x SELECT dept, COUNT(*) FROM emp WHERE dept IS NOT NULL GROUP BY dept WITH BACKFILL FROM emp HAND OVER AT id > 1; SELECT * FROM x;
-- : INSERT … ON CONFLICT
CREATE TABLE x (id INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'k.db', 'table-name' = 'x'); INSERT INTO x SELECT dept, MAX(name) FROM emp WHERE dept IS NOT NULL GROUP BY dept ON CONFLICT DO DEDUPLICATE; SELECT * FROM x;
-- : EXECUTE STATEMENT SET
EXECUTE STATEMENT SET BEGIN INSERT INTO out SELECT id, name FROM emp WHERE id = 1; INSERT INTO sink SELECT id, name FROM emp; END; SELECT * FROM out;
-- : BEGIN STATEMENT SET
BEGIN STATEMENT SET; INSERT INTO sink SELECT id, name FROM emp; END;
-- : UPDATE
CREATE TABLE x (id INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'k.db', 'table-name' = 'x'); INSERT INTO x VALUES (1, 'a'), (2, 'b'); UPDATE x SET s = 'z' WHERE id = 1; SELECT * FROM x;
-- : DELETE
CREATE TABLE x (id INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'k.db', 'table-name' = 'x'); INSERT INTO x VALUES (1, 'a'), (2, 'b'); DELETE FROM x WHERE id = 1; SELECT * FROM x;
-- : TRUNCATE TABLE
CREATE TABLE x (id INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'k.db', 'table-name' = 'x'); INSERT INTO x VALUES (1, 'a'), (2, 'b'); TRUNCATE TABLE x; SELECT * FROM x;
-- : MERGE
MERGE INTO out USING emp ON out.id = emp.id WHEN MATCHED THEN UPDATE SET s = 'x';
-- : EXPLAIN
EXPLAIN SELECT id FROM emp;
-- : EXPLAIN CHANGELOG_MODE
EXPLAIN CHANGELOG_MODE SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : EXPLAIN ESTIMATED_COST
EXPLAIN ESTIMATED_COST SELECT id FROM emp;
-- : EXPLAIN JSON_EXECUTION_PLAN
EXPLAIN JSON_EXECUTION_PLAN SELECT id FROM emp;
-- : EXPLAIN PLAN_ADVICE
EXPLAIN PLAN_ADVICE SELECT id FROM emp;
-- : EXPLAIN STATE (not in Flink)
EXPLAIN STATE SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : EXPLAIN WHY (not in Flink)
EXPLAIN WHY SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : EXPLAIN WHY NOT (not in Flink)
EXPLAIN WHY NOT SELECT name FROM emp WHERE id = 99;
-- : VERIFY (not in Flink)
VERIFY SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : COMPILE PLAN, EXECUTE PLAN
COMPILE PLAN 'plan.json' FOR INSERT INTO out SELECT id, name FROM emp WHERE id = 1; EXECUTE PLAN 'plan.json'; SELECT * FROM out;
-- : USE, USE CATALOG
CREATE DATABASE d; USE d; USE CATALOG default_catalog; SHOW CURRENT DATABASE;
-- : USE MODULES, LOAD MODULE
USE MODULES core;
-- : EXPLAIN ANALYZE (not in Flink)
EXPLAIN ANALYZE SELECT dept, COUNT(*) FROM emp GROUP BY dept;
-- : SHOW MODULES
SHOW MODULES;
-- : SET, RESET without quotes
SET parallelism.default = 2; RESET parallelism.default;
-- : SET, RESET
SET 'parallelism.default' = '2'; RESET 'parallelism.default';
-- : ADD JAR
ADD JAR 'x.jar';
-- : SHOW TABLES, VIEWS, DATABASES, CATALOGS
SHOW TABLES LIKE 'e%';
-- : SHOW COLUMNS
SHOW COLUMNS FROM dept;
-- : SHOW FUNCTIONS
SHOW FUNCTIONS LIKE 'upp%';
-- : SHOW CREATE VIEW
CREATE VIEW w AS SELECT 1 AS a; SHOW CREATE VIEW w;
-- : SHOW PARTITIONS
CREATE TABLE parts (id INT, d INT) PARTITIONED BY (d) WITH ('connector' = 'filesystem', 'path' = 'parts', 'format' = 'json'); INSERT INTO parts VALUES (1, 10), (2, 20); SHOW PARTITIONS parts;
-- : SHOW PARTITIONS … PARTITION
CREATE TABLE parts (id INT, d INT, e STRING) PARTITIONED BY (d, e) WITH ('connector' = 'filesystem', 'path' = 'parts', 'format' = 'json');
INSERT INTO parts VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 10, 'z'); SHOW PARTITIONS parts PARTITION (d = 10);
-- : SHOW PROCEDURES FROM
SHOW PROCEDURES FROM sys LIKE '%rescale%';
-- : SHOW PROCEDURES
SHOW PROCEDURES;
-- : SHOW MODELS
SHOW MODELS;
-- : SHOW JARS
SHOW JARS;
-- : SHOW JOBS
SHOW JOBS;
-- : SHOW CONNECTORS (not in Flink)
SHOW CONNECTORS LIKE 'data%';
-- : SHOW FORMATS (not in Flink)
SHOW FORMATS LIKE 'cs%';
-- : DESCRIBE
DESCRIBE dept;
-- : DESCRIBE CATALOG
DESCRIBE CATALOG default_catalog;
-- : DESCRIBE DATABASE
DESCRIBE DATABASE default_database;
-- : DESCRIBE FUNCTION
DESCRIBE FUNCTION UPPER;
-- : ANALYZE TABLE
ANALYZE TABLE emp COMPUTE STATISTICS;
-- : CALL (a savepoint that is not there)
CALL sys.dispose_savepoint('nowhere');
