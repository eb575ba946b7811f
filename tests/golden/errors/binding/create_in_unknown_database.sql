CREATE TABLE db2.x (a INT) WITH ('connector' = 'blackhole');
