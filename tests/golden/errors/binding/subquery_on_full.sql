SELECT t.a FROM t FULL JOIN u ON t.a = u.a AND u.c IN (SELECT c FROM u AS v);
