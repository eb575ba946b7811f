SELECT ROW(a, s) AS r, COUNT(*) FROM (SELECT a, ROW(a, s) AS s FROM t) GROUP BY a, s;
