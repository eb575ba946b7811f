CREATE TABLE x (a INT) WITH ('connector' = 'datagen');
SELECT * FROM x /*+ OPTIONS('number-of-rows' = '18446744073709551616') */;
