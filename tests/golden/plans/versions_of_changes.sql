-- A table of changes has versions, and may be read as a table besides.

CREATE TABLE transfers (id INT, currency STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE rates (currency STRING, rate INT, note STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '1' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'rates', 'format' = 'csv', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op');
CREATE VIEW low_rates AS SELECT currency, rate FROM rates WHERE rate < 10;

SELECT t.id, r.rate, now.note FROM transfers AS t
LEFT JOIN low_rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency
JOIN rates AS now ON now.currency = t.currency;
