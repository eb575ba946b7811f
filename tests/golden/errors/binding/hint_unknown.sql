SELECT * FROM t /*+ OPTIONS('number-of-rws' = '5') */;
