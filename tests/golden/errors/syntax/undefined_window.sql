SELECT sum(a) OVER w FROM t
