CREATE TABLE x (a INT) WITH ('path' = 'y');
