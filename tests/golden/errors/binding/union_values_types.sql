SELECT * FROM (VALUES (1, 'a'), ('x', 'b')) AS v (a, b);
