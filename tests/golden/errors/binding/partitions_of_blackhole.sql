CREATE TABLE p (a INT, d STRING) PARTITIONED BY (d) WITH ('connector' = 'blackhole');
