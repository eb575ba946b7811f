CREATE TABLE x (ts TIMESTAMP(6), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
