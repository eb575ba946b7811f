SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))
