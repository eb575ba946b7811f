CREATE TABLE x (a INT, b AS a + 1, c AS b + 1) WITH ('connector' = 'datagen');
