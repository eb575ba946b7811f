-- Orders with their customers: one lookup that filters and computes, and one that retries.

CREATE TABLE orders (id BIGINT, customer INT, amount INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'stream');
CREATE TABLE customers (id INT, name STRING, active BOOLEAN, score INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'keyed', 'lookup.cache' = 'PARTIAL');

SELECT o.id, UPPER(c.name) AS name
FROM orders AS o
LEFT JOIN customers FOR SYSTEM_TIME AS OF o.p AS c ON o.customer = c.id AND c.active AND o.amount > c.score;

SELECT /*+ LOOKUP('table'='c', 'shuffle'='true', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay',
  'fixed-delay'='500ms', 'max-attempts'='2') */ c.name, window_start, o.id
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) AS o
JOIN customers FOR SYSTEM_TIME AS OF o.p AS c ON MOD(o.customer, 10) = c.id;
