CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR tss AS tss) WITH ('connector' = 'datagen');
