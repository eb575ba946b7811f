-- Bounded side input: every bid with a value from a table of ten thousand keys, as of the moment the bid is read.

CREATE TABLE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  url STRING,
  `dateTime` TIMESTAMP(3),
  extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'nexmark',
  'nexmark.table' = 'bid',
  'nexmark.events' = '1000000',
  'nexmark.rate' = '100000'
);

CREATE TABLE side_input (
  key BIGINT,
  `value` STRING
) WITH (
  'connector' = 'duckdb',
  'path' = 'queries/nexmark/side_input.csv',
  'lookup.cache' = 'FULL'
);

CREATE TABLE nexmark_q13 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  `dateTime` TIMESTAMP(3),
  `value` STRING
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO nexmark_q13
SELECT
  B.auction,
  B.bidder,
  B.price,
  B.`dateTime`,
  S.`value`
FROM (SELECT *, PROCTIME() AS p_time FROM bid) B
JOIN side_input FOR SYSTEM_TIME AS OF B.p_time AS S
ON MOD(B.auction, 10000) = S.key;
