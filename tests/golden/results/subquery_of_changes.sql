CREATE TABLE dept (id INT, dname STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'data/departments.json', 'format' = 'debezium-json');
CREATE TABLE emp (name STRING, dept INT, boss STRING)
WITH ('connector' = 'filesystem', 'path' = 'data/employees.json', 'format' = 'json');

SELECT name FROM emp WHERE dept = (SELECT id FROM dept WHERE dname = 'Sales');
SELECT name, (SELECT id FROM dept WHERE dname = boss) AS found FROM emp;
SELECT name, CASE WHEN dept < 3 THEN (SELECT id FROM dept WHERE id < emp.dept) END AS before FROM emp;
SELECT name, COALESCE(boss, (SELECT dname FROM dept WHERE id > 1)) AS other FROM emp WHERE boss IS NOT NULL OR dept < (SELECT id FROM dept WHERE dname LIKE 'T%');
SELECT COUNT(*) AS many, MAX((SELECT id FROM dept WHERE dname = 'Sales')) AS sales FROM emp;
