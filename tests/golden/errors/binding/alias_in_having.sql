SELECT a, COUNT(*) AS total FROM t GROUP BY a HAVING total > 1;
