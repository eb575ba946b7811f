INSERT INTO sink SELECT a, b + 1.5, a + 1 FROM t;
