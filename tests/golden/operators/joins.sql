SELECT s.k, b.v FROM s JOIN b ON s.k = b.k;
SELECT s.k, b.v FROM s LEFT JOIN b ON s.k = b.k AND s.v > 3 AND b.v < 2 AND s.v < b.v;
SELECT s.k, b.v FROM s RIGHT JOIN b ON s.k = b.k WHERE b.v > 3;
SELECT s.k, b.v FROM s FULL JOIN b ON s.k = b.k;
SELECT s.k, b.v FROM s CROSS JOIN b WHERE s.v > b.v;
SELECT s.k, b.v FROM s JOIN b ON s.k + 1 = b.k * 2 AND s.n = b.n;
SELECT s.k FROM s JOIN b ON s.k = b.k AND s.v > 1 AND b.v > 2 AND RAND() > 0.5;
SELECT k FROM s WHERE k IN (SELECT k FROM b);
SELECT k FROM s WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = s.k);
SELECT s.k FROM s JOIN b ON s.k = b.k AND s.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '1' MINUTE AND s.v > b.v;
SELECT s.k FROM s JOIN b ON s.k = b.k AND s.ts > b.ts AND b.ts > s.ts - INTERVAL '1' HOUR;
SELECT s.k FROM s LEFT JOIN b ON s.ts >= b.ts AND s.ts < b.ts + INTERVAL '1' HOUR;
SELECT s.k FROM s JOIN b ON s.k = b.k AND s.ts = b.ts;
SELECT j.k, b2.v FROM (SELECT s.k, b.ts AS bts, s.ts AS sts FROM s JOIN b ON s.k = b.k AND s.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts) AS j
JOIN b AS b2 ON j.k = b2.k AND j.bts BETWEEN b2.ts - INTERVAL '1' SECOND AND b2.ts;
SELECT j.k, b2.v FROM (SELECT s.k, b.ts AS bts, s.ts AS sts FROM s LEFT JOIN b ON s.k = b.k AND s.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts) AS j
JOIN b AS b2 ON j.k = b2.k AND j.bts BETWEEN b2.ts - INTERVAL '1' SECOND AND b2.ts;
SELECT a.k FROM s AS a JOIN s AS z ON a.k = z.k AND a.p BETWEEN z.p - INTERVAL '5' SECOND AND z.p;
SELECT a.k FROM nano AS a JOIN nano AS z ON a.k = z.k AND a.z >= z.z AND a.z < z.z + INTERVAL '1' SECOND AND a.ts > z.ts;
SELECT s.k FROM s JOIN b ON s.k = b.k AND s.ts > b.ts;
SELECT l.n, r.n FROM (SELECT k, COUNT(*) AS n, window_start AS ws, window_end AS we FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) AS l
JOIN (SELECT k, COUNT(*) AS n, window_start AS ws, window_end AS we FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) AS r
ON l.k = r.k AND l.ws = r.ws AND l.we = r.we AND l.n > r.n;
SELECT l.n, r.n FROM (SELECT COUNT(*) AS n, window_end AS we FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) AS l
JOIN (SELECT k, COUNT(*) AS n, window_end AS we FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) AS r
ON l.we = r.we;
SELECT l.n, r.n FROM (SELECT k, COUNT(*) AS n, window_end AS we FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) AS l
JOIN (SELECT k, COUNT(*) AS n, window_end AS we FROM TABLE(CUMULATE(TABLE b, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end) AS r
ON l.k = r.k AND l.we = r.we;
SELECT s.k FROM s JOIN (SELECT MAX(v) AS top, window_end AS we FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) AS h
ON s.v = h.top AND s.ts BETWEEN h.we - INTERVAL '10' SECOND AND h.we;
SELECT h.top FROM (SELECT MAX(v) AS top, window_end AS we FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end) AS h
LEFT JOIN s ON s.v = h.top AND s.ts BETWEEN h.we - INTERVAL '10' SECOND AND h.we;
SELECT j.k, COUNT(*) FROM (SELECT s.k, s.ts FROM s JOIN b ON s.k = b.k AND s.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts) AS j GROUP BY j.k;
SELECT a.k, a.c, z.c FROM (SELECT k, COUNT(*) AS c FROM s GROUP BY k) AS a JOIN (SELECT k, SUM(v) AS c FROM b GROUP BY k) AS z ON a.k = z.k;
SELECT s.k, c.n FROM s JOIN c FOR SYSTEM_TIME AS OF s.p AS c ON s.k = c.k;
SELECT s.k, c.n FROM s LEFT JOIN c FOR SYSTEM_TIME AS OF s.p AS c ON s.k = c.k AND c.active AND c.n = s.n AND c.w > s.x;
SELECT s.k, c.n FROM s JOIN c FOR SYSTEM_TIME AS OF s.p AS c ON s.x = c.w;
SELECT s.k, c.n FROM s JOIN c FOR SYSTEM_TIME AS OF s.p AS c ON CAST(s.k AS INT) = c.k;
SELECT s.k, b.n FROM s JOIN b FOR SYSTEM_TIME AS OF s.p AS b ON s.k = b.k;
SELECT a.k, o.n FROM (SELECT k, COUNT(*) AS c, PROCTIME() AS p FROM s GROUP BY k) AS a JOIN once FOR SYSTEM_TIME AS OF a.p AS o ON a.k = o.k;
SELECT /*+ LOOKUP('table'='c', 'shuffle'='true', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='2s', 'max-attempts'='7') */
s.k, c.n FROM s JOIN c FOR SYSTEM_TIME AS OF s.p AS c ON s.k = c.k;
