SELECT a, order FROM t
