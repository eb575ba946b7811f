CREATE TABLE x (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'blackhole');
