CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'fields.b.kind' = 'random');
