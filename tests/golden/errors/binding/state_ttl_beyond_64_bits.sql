CREATE TABLE x (a INT) WITH ('connector' = 'datagen');
SELECT /*+ STATE_TTL('x' = '18446744073709551616 d') */ a, COUNT(*) FROM x GROUP BY a;
