SELECT a /*+ OPTIONS('a' = 'b') */ FROM t
