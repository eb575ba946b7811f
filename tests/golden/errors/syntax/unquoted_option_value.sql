CREATE TABLE t (a INT) WITH ('rows' = 5)
