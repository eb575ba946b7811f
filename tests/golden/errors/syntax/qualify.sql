SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) = 1 HAVING a > 1
