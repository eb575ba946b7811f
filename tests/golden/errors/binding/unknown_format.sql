CREATE TABLE x (a INT) WITH ('connector' = 'files', 'path' = 'y', 'format' = 'cvs');
