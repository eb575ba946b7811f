CREATE TABLE transfers (id INT, currency STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'data/transfers.csv', 'format' = 'csv');
CREATE TABLE rates (
  currency STRING, rate INT, at TIMESTAMP(3), twice AS rate * 2, WATERMARK FOR at AS at - INTERVAL '1' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'data/rates', 'format' = 'json', 'changelog.mode' = 'upsert',
  'changelog.op-column' = 'op');
CREATE TABLE rate_changes (
  currency STRING, rate INT, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'data/rate_changes.json', 'format' = 'json', 'changelog.mode' = 'retract',
  'changelog.op-column' = 'op');
-- A deletion of Debezium has the time of the row that it deletes, so the watermark waits for it.
CREATE TABLE rate_events (
  currency STRING, rate INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' HOUR,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'data/rate_events.json', 'format' = 'debezium-json');
-- A version that the filter drops leaves its key without a row.
CREATE VIEW low_rates AS SELECT currency, rate + 1 AS rate FROM rates WHERE rate NOT IN (11, 21);

SELECT t.id, t.currency, r.rate, r.twice, r.at
FROM transfers AS t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
SELECT t.id, r.rate FROM transfers AS t JOIN low_rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
SELECT t.id, r.rate FROM transfers AS t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r
ON t.currency = r.currency AND r.rate > 10 WHERE t.id > 3 AND (r.rate < 22 OR r.rate IS NULL);
SELECT t.id, r.currency FROM transfers AS t JOIN rate_changes FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
SELECT t.id, r.rate, now.rate AS last
FROM transfers AS t JOIN rate_events FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency
JOIN rate_events AS now ON now.currency = t.currency;
