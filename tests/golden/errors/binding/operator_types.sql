SELECT a + s FROM t;
