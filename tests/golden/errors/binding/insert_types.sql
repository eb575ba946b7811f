INSERT INTO sink SELECT b, b, s FROM t;
