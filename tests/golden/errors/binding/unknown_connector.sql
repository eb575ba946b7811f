CREATE TABLE x (a INT) WITH ('connector' = 'datagem');
