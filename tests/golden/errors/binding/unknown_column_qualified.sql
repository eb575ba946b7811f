SELECT t.x FROM t, u;
