SELECT * FROM t /*+ FOO(1) */
