INSERT INTO sink (a, bb) SELECT a, b FROM t;
