SELECT * FROM t LATERAL VIEW explode(a) x AS y
