CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '18446744073709551616');
