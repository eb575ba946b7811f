CREATE OR ALTER TABLE t WITH ('connector' = 'blackhole') AS SELECT 1 AS n
