CREATE TABLE x (a INT, a STRING) WITH ('connector' = 'datagen');
