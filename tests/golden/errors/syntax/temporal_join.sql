SELECT o.a
FROM o
JOIN r FOR SYSTEM_TIME AS OF o.pt AS r ON o.c = r.c
