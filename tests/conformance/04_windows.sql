-- # Windows

-- : TUMBLE
SELECT window_start, COUNT(*), SUM(qty) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- : TUMBLE with an offset
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
-- : HOP
SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- : CUMULATE
SELECT window_start, window_end, COUNT(*) FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- : SESSION
SELECT window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- : SESSION … PARTITION BY
SELECT item, window_start, COUNT(*) FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY item, window_start, window_end;
-- : window TVF alone
SELECT id, window_start, window_time FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND));
-- : named arguments
SELECT COUNT(*) FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
-- : processing time
SELECT COUNT(*) > 0 FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(p), INTERVAL '1' SECOND)) GROUP BY window_start, window_end LIMIT 1;
-- : window over a query
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE((SELECT * FROM orders WHERE qty > 1), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
-- : GROUPING SETS in a window
SELECT window_start, item, SUM(qty) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, GROUPING SETS ((item), ());
-- : cascading windows
SELECT w2, SUM(n) FROM (SELECT window_start AS w2, n FROM TABLE(TUMBLE((SELECT window_time AS t, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time), DESCRIPTOR(t), INTERVAL '10' SECOND))) GROUP BY w2;
-- : window Top-N
SELECT id, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY qty DESC) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n = 1;
-- : window deduplication
SELECT item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, item ORDER BY ts DESC) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) WHERE n = 1;
-- : window over updating input
SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE changes, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
-- : SESSION over updating input
SELECT window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE changes, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- : TIMESTAMP_LTZ windows
SET 'table.local-time-zone' = 'Asia/Tokyo'; SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE instants, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
-- : group window TUMBLE (legacy)
SELECT TUMBLE_START(ts, INTERVAL '10' SECOND), TUMBLE_END(ts, INTERVAL '10' SECOND), COUNT(*) FROM orders GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);
-- : group window HOP (legacy)
SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), COUNT(*) FROM orders GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND);
-- : group window SESSION (legacy)
SELECT SESSION_START(ts, INTERVAL '6' SECOND), SESSION_ROWTIME(ts, INTERVAL '6' SECOND), COUNT(*) FROM orders GROUP BY SESSION(ts, INTERVAL '6' SECOND);
-- : CURRENT_WATERMARK
SELECT id, CURRENT_WATERMARK(ts) IS NULL FROM orders WHERE id = 1;
-- : early and late firing
SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '1 s'; SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
-- : sessions that fire early
SET 'table.exec.emit.early-fire.enabled' = 'true'; SELECT COUNT(*) FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
-- : late rows as a table (not in Flink)
SELECT COUNT(*) FROM `orders$late`;
