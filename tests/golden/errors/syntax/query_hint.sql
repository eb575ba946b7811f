SELECT /*+ STATE_TTL('t' = '1 d') */ * FROM t
