CREATE TABLE t (a INT) WITH ('k' = 'x', 'k' = 'y')
