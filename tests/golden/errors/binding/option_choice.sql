CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'fields.a.kind' = 'randon');
