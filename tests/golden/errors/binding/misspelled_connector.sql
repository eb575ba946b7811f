CREATE TABLE x (a INT) WITH ('conector' = 'datagen');
