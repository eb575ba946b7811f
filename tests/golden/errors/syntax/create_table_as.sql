CREATE TABLE t WITH ('connector' = 'x') AS SELECT 1
