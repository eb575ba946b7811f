SELECT $rowtime FROM t;
