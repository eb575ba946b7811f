-- # Hints

-- : OPTIONS
SELECT COUNT(*) FROM numbers /*+ OPTIONS('number-of-rows' = '2') */;
-- : BROADCAST, SHUFFLE_HASH, SHUFFLE_MERGE, NEST_LOOP
SELECT /*+ BROADCAST(d) */ e.name FROM emp e JOIN dept d ON e.dept = d.id;
-- : MULTI_JOIN
SELECT /*+ MULTI_JOIN(e, d) */ e.name FROM emp e JOIN dept d ON e.dept = d.id;
-- : LOOKUP
SELECT /*+ LOOKUP('table' = 'd', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10 ms', 'max-attempts' = '1') */ o.id, d.dname FROM orders o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id;
-- : unknown hint
SELECT /*+ FAST(e) */ name FROM emp e;
