CREATE TABLE x (ts STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
