SELECT o.a
FROM o
JOIN r AS r FOR SYSTEM_TIME AS OF o.pt ON o.c = r.c
