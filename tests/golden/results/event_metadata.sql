CREATE TABLE payments (id INT, currency STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'data/dated_payments.csv', 'format' = 'csv');
CREATE TABLE rates (
  currency STRING, rate DECIMAL(10, 2), `table` STRING, origin STRING METADATA FROM 'value.source.table' VIRTUAL,
  at TIMESTAMP_LTZ(3) METADATA FROM 'source.timestamp' VIRTUAL, WATERMARK FOR at AS at, PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = 'data/rate_source.json', 'format' = 'debezium-json');

SELECT * FROM rates;
SELECT p.id, r.rate, r.origin FROM payments AS p LEFT JOIN rates FOR SYSTEM_TIME AS OF p.ts AS r ON p.currency = r.currency;
