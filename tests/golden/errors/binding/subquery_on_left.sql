SELECT t.a FROM t LEFT JOIN u ON t.a = u.a AND t.b IN (SELECT c FROM u AS v);
