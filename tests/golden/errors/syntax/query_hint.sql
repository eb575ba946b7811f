SELECT /*+ EARLY_FIRE('delay' = '1 d') */ * FROM t
