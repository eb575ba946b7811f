SELECT * FROM a, b FULL JOIN c ON b.x = c.x
