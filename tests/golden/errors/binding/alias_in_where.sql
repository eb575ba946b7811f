SELECT b AS total FROM t WHERE total > 1;
