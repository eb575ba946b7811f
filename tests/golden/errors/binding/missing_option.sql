CREATE TABLE x (a INT) WITH ('connector' = 'files', 'format' = 'csv');
