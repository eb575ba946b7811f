CREATE TABLE x
CREATE TABLE x (a, b)
CREATE TABLE x AS SELECT 1
CREATE TABLE x (a INT)
CREATE TABLE x (a INT PRIMARY KEY)
-- instead: CREATE TABLE x (a INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'print')
CREATE TABLE x (a INT DEFAULT 1) WITH ('connector'='print')
CREATE TABLE x (a SERIAL) WITH ('connector'='print')
-- instead: CREATE TABLE x (a BIGINT) WITH ('connector'='print')
CREATE TABLE x (a TEXT, b INTEGER, c VARCHAR, d NUMBER) WITH ('connector'='print')
-- instead: CREATE TABLE x (a STRING, b INTEGER, c VARCHAR, d DECIMAL(10, 2)) WITH ('connector'='print')
CREATE TABLE x (a VARCHAR(10), b TIMESTAMPTZ) WITH ('connector'='print')
-- instead: CREATE TABLE x (a VARCHAR(10), b TIMESTAMP_LTZ(3)) WITH ('connector'='print')
CREATE TABLE x (a INT64) WITH ('connector'='print')
CREATE TABLE x (a INT, a INT) WITH ('connector'='print')
CREATE TABLE x (a INT) WITH ('connector'='prnt')
CREATE TABLE x (a INT) WITH ('conector'='print')
CREATE TABLE x (a INT) WITH ('connector'='kafka')
CREATE TABLE x (a INT) WITH (connector='print')
-- instead: CREATE TABLE x (a INT) WITH ('connector'='print')
CREATE TABLE x (a INT) WITH (connector=print)
CREATE TABLE x (a INT) WITH "connector"='print'
CREATE TABLE x (a INT) WITH ('connector'='print',)
CREATE TABLE x (a INT,) WITH ('connector'='print')
CREATE TABLE x (a INT b INT) WITH ('connector'='print')
CREATE TABLE x (a INT; b INT)
CREATE TABLE x (a INT) ('connector'='print')
CREATE TABLE x a INT WITH ('connector'='print')
CREATE TABLE x (a INT NULL, b INT NOT NUL) WITH ('connector'='print')
CREATE TABLE x (order INT) WITH ('connector'='print')
CREATE TABLE x (a INT, PRIMARY KEY (a)) WITH ('connector'='print')
-- instead: CREATE TABLE x (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='print')
CREATE TABLE x (a INT, PRIMARY KEY (z) NOT ENFORCED) WITH ('connector'='print')
CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES emp(id)) WITH ('connector'='print')
CREATE TABLE x (a INT CHECK (a > 0)) WITH ('connector'='print')
CREATE TABLE x (a INT UNIQUE) WITH ('connector'='print')
CREATE TABLE x (a INT AUTO_INCREMENT) WITH ('connector'='print')
CREATE TABLE x (a INT REFERENCES emp(id)) WITH ('connector'='print')
CREATE TABLE x (a INT) ENGINE=InnoDB
CREATE TABLE x (a INT) USING parquet
CREATE TABLE x (a INT) STORED AS PARQUET
CREATE TABLE x (a INT) PARTITIONED BY (b INT) WITH ('connector'='print')
CREATE TABLE x (a INT) PARTITION BY (a) WITH ('connector'='filesystem','path'='/tmp/q','format'='json')
-- instead: CREATE TABLE x (b STRING, a INT) PARTITIONED BY (a) WITH ('connector'='filesystem','path'='/nowhere/q','format'='json')
CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK ts AS ts) WITH ('connector'='datagen')
CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts) WITH ('connector'='datagen')
CREATE TABLE x (a INT, ts STRING, WATERMARK FOR ts AS ts) WITH ('connector'='datagen')
-- instead: CREATE TABLE x (a INT, t STRING, ts AS TO_TIMESTAMP(t), WATERMARK FOR ts AS ts) WITH ('connector'='datagen')
CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL 5) WITH ('connector'='datagen')
-- instead: CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='datagen')
CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - 5) WITH ('connector'='datagen')
CREATE TABLE x (a INT, ts TIMESTAMP(9), WATERMARK FOR ts AS ts) WITH ('connector'='datagen')
-- instead: CREATE TABLE x (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='datagen')
CREATE TABLE x (a INT, p AS PROCTIME, q AS a +) WITH ('connector'='datagen')
CREATE TABLE x (a INT, q AS b + 1) WITH ('connector'='datagen')
CREATE TABLE x (a INT) WITH ('connector'='datagen','rows-per-secnd'='5')
CREATE TABLE x (a INT) WITH ('connector'='datagen','rows-per-second'='many')
CREATE TABLE x (a INT) WITH ('connector'='datagen','fields.b.kind'='random')
CREATE TABLE x (a INT) WITH ('connector'='datagen','fields.a.kind'='sequential')
CREATE TABLE x (a INT) WITH ('connector'='filesystem','format'='json')
CREATE TABLE x (a INT) WITH ('connector'='filesystem','path'='/tmp/qq')
CREATE TABLE x (a INT) WITH ('connector'='filesystem','path'='/tmp/qq','format'='jsn')
CREATE TABLE x (a INT) WITH ('connector'='filesystem','path'='/tmp/qq','format'='csv','csv.delimiter'=';')
CREATE TABLE x (a INT) WITH ('connector'='filesystem','path'='/tmp/qq','format'='csv','field-delimiter'=';')
-- instead: CREATE TABLE x (a INT) WITH ('connector'='filesystem','path'='/nowhere/qq','format'='csv','csv.field-delimiter'=';')
CREATE TABLE x (a DECIMAL(50,2)) WITH ('connector'='print')
CREATE TABLE x (a DECIMAL(5,7)) WITH ('connector'='print')
CREATE TABLE x (a TIMESTAMP(12)) WITH ('connector'='print')
CREATE TABLE x (a VARCHAR(0)) WITH ('connector'='print')
CREATE TABLE x (a ARRAY) WITH ('connector'='print')
CREATE TABLE x (a ARRAY<>) WITH ('connector'='print')
CREATE TABLE x (a INT[]) WITH ('connector'='print')
-- instead: CREATE TABLE x (a ARRAY<INT>) WITH ('connector'='print')
CREATE TABLE x (a MAP<STRING>) WITH ('connector'='print')
CREATE TABLE x (a STRUCT<x INT>) WITH ('connector'='print')
-- instead: CREATE TABLE x (a ROW<x INT>) WITH ('connector'='print')
CREATE TABLE x (a ROW<INT>) WITH ('connector'='print')
CREATE TABLE x (a DATETIME, b BOOL, c FLOAT8, d UUID, e JSON, f BLOB, g MONEY) WITH ('connector'='print')
CREATE TABLE x (a UNSIGNED INT) WITH ('connector'='print')
CREATE TABLE x (a INT UNSIGNED) WITH ('connector'='print')
-- instead: CREATE TABLE x (a BIGINT) WITH ('connector'='print')
CREATE TABLE x (a TIMESTAMP WITH TIME ZONE) WITH ('connector'='print')
-- instead: CREATE TABLE x (a TIMESTAMP_LTZ(3)) WITH ('connector'='print')
CREATE TABLE x (a DOUBLE PRECISION, b CHARACTER VARYING(10), c NVARCHAR(10)) WITH ('connector'='print')
CREATE TEMP TABLE x (a INT) WITH ('connector'='print')
-- instead: CREATE TEMPORARY TABLE x (a INT) WITH ('connector'='print')
CREATE TABLE emp (a INT) WITH ('connector'='print')
CREATE TABLE IF NOT EXIST x (a INT) WITH ('connector'='print')
CREATE OR REPLACE VIEW v AS SELECT 1
-- instead: ALTER VIEW v AS SELECT 1
CREATE VIEW w
CREATE VIEW w SELECT 1
CREATE VIEW w (a, b) AS SELECT 1
CREATE MATERIALIZED VIEW w AS SELECT 1
-- instead: CREATE TABLE w WITH ('connector' = 'blackhole') AS SELECT dept, COUNT(*) AS n FROM emp GROUP BY dept
CREATE INDEX i ON emp (id)
CREATE SCHEMA s
-- instead: CREATE DATABASE s
CREATE USER bob
CREATE SEQUENCE s
CREATE TYPE t AS ENUM ('a')
CREATE PROCEDURE p
CREATE TRIGGER t
CREATE STREAM s (a INT)
CREATE SOURCE s (a INT)
CREATE SINK s (a INT)
CREATE TABLEE x (a INT)
DROP TABEL emp
DROP TABLE emp, dept
DROP TABLE nosuch
DROP VIEW emp
-- instead: DROP TABLE emp
DROP emp
DROP TABLE v
-- instead: DROP VIEW v
ALTER TABLE emp ADD COLUMN
ALTER TABLE emp ADD salary2
ALTER TABLE emp RENAME emp2
ALTER TABLE emp DROP COLUMN nosuch
ALTER TABLE emp DROP COLUMN id
-- instead: ALTER TABLE emp DROP id
ALTER TABLE nosuch ADD x INT
ALTER TABLE emp ALTER COLUMN id TYPE BIGINT
-- instead: ALTER TABLE emp MODIFY id BIGINT
ALTER TABLE emp ALTER COLUMN id SET NOT NULL
ALTER TABLE emp MODIFY id
ALTER TABLE emp SET ('pth'='x')
ALTER TABLE emp SET (path='x')
CREATE DATABASE default_database
CREATE CATALOG c
CREATE CATALOG c WITH ('type'='hive')
CREATE CATALOG c WITH ('type'='jdbc')
DROP CATALOG default_catalog
DROP DATABASE default_database
CREATE TABLE x (a INT) WITH ('connector'='duckdb', 'path'='nowhere.db', 'lookup.cache.max-rows'='5')
-- instead: CREATE TABLE x (a INT) WITH ('connector'='jdbc', 'url'='jdbc:sqlite:/nowhere', 'table-name'='t', 'lookup.cache'='PARTIAL', 'lookup.partial-cache.max-rows'='5')
CREATE TABLE x (a INT) WITH ('connector'='duckdb', 'path'='nowhere.db', 'lookup.cache.ttl'='5s')
CREATE TABLE x (a INT) WITH ('connector'='jdbc', 'url'='jdbc:sqlite:/nowhere', 'connector.table'='t')
CREATE TABLE x (a INT) WITH ('connector.type'='filesystem', 'connector.path'='/nowhere', 'format.type'='csv')
-- instead: CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'path'='/nowhere', 'format'='csv')
CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'path'='/nowhere', 'format'='csv', 'format.field-delimiter'=';')
-- instead: CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'path'='/nowhere', 'format'='csv', 'csv.field-delimiter'=';')
CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'path'='/nowhere', 'format'='csv', 'update-mode'='append')
CREATE TABLE late (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()) WITH ('connector'='blackhole')
-- instead: CREATE TABLE late (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='blackhole')
