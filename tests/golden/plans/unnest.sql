CREATE TABLE articles (id BIGINT, tags ARRAY<STRING>, scores MAP<STRING, INT>, parts ARRAY<ROW<name STRING, size INT>>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE totals (tag STRING, n BIGINT, PRIMARY KEY (tag) NOT ENFORCED) WITH ('connector' = 'upsert');
SET 'parallelism.default' = '2';

-- Only the columns that are read go into the operator, a condition on them before it, one on the element behind it.
INSERT INTO totals SELECT tag, COUNT(*) FROM articles CROSS JOIN UNNEST(tags) AS u (tag) WHERE id > 1 AND tag <> 'x' GROUP BY tag;

SELECT id, name, number FROM articles LEFT JOIN UNNEST(parts) WITH ORDINALITY AS u (name, size, number) ON TRUE;

SELECT id, k, v, n FROM articles, UNNEST(scores) WITH ORDINALITY AS u (k, v, n);

-- A multiset of an updating aggregation, whose elements are retracted.
SELECT id, tag, i FROM (SELECT id, COLLECT(tags[1]) AS firsts FROM articles GROUP BY id) AS a
  CROSS JOIN UNNEST(firsts) WITH ORDINALITY AS u (tag, i);

-- Computed row by row.
SELECT id, tag FROM articles AS a, LATERAL (SELECT UPPER(tag) AS tag FROM UNNEST(a.tags) AS u (tag) WHERE tag <> 'x' AND a.id > 1) AS l;

-- Computed once for equal arrays.
SELECT id, (SELECT MAX(tag) FROM UNNEST(a.tags) AS u (tag)) AS greatest FROM articles AS a;

SELECT window_start, tag, COUNT(*) FROM TABLE(TUMBLE(TABLE articles, DESCRIPTOR(ts), INTERVAL '1' HOUR)), UNNEST(tags) AS u (tag)
  GROUP BY window_start, window_end, tag;
