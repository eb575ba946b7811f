CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = 'ten');
