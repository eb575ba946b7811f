SELECT * FROM t UNPIVOT (v FOR name IN (a, b))
