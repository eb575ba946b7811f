SELECT a,
       bb
FROM t WHERE a > 1;
