ALTER TABLE t SET ('connector' = 'print');
