FROM emp SELECT name
FROM emp
-- instead: SELECT * FROM emp
SELCT name FROM emp
CRATE TABLE x (a INT)
SET x = 1
SET 'parallelism.defalt' = '2'
SET 'parallelism.default' = 'two'
SET 'parallelism.default' = 2
SET pipeline.name = my job
-- instead: SET 'pipeline.name' = 'my job'
SET 'parallelism.default'
RESET 'parallelism.defalt'
RESET parallelism.default now
SHOW TABELS
SHOW COLUMNS
SHOW COLUMNS FROM nosuch
SHOW CREATE emp
-- instead: SHOW CREATE TABLE emp
SHOW CREATE TABLE nosuch
SHOW CREATE TABLE v
SHOW FUNCTIONS LIKE upper
-- instead: SHOW FUNCTIONS LIKE 'upper'
SHOW INDEXES FROM emp
SHOW SCHEMAS
-- instead: SHOW DATABASES
DESCRIBE nosuch
DESC
DESCRIBE TABLE emp
-- instead: DESCRIBE emp
DESCRIBE CONNECTOR nosuch
EXPLAIN
EXPLAIN DROP TABLE emp
EXPLAIN SELECT nosuch FROM emp
EXPLAIN VERBOSE SELECT 1
USE nosuch
USE CATALOG nosuch
USE DATABASE default_database
USE TABLE emp
COMMIT
ROLLBACK
GRANT SELECT ON emp TO bob
VACUUM
COPY emp FROM 'x.csv'
PRAGMA x
EXECUTE STATEMENT SET BEGIN INSERT INTO sink VALUES (1,2,'x') END
-- instead: EXECUTE STATEMENT SET BEGIN INSERT INTO sink VALUES (1,2,'x'); END
EXECUTE STATEMENT SET BEGIN SELECT 1; END
EXECUTE STATEMENT SET INSERT INTO sink VALUES (1,2,'x'); END
STOP JOB x
STOP JOB 'nosuch'
DESCRIBE JOB 'nosuch'
help
exit
quit
\d emp
.tables
PIVOT emp ON dept USING SUM(salary)
-- instead: SELECT * FROM emp
TABLE emp
