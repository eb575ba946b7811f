-- Currency conversion: each price as an exact DECIMAL.

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

CREATE TABLE nexmark_q1 (
  auction BIGINT,
  bidder BIGINT,
  price DECIMAL(23, 3),
  `dateTime` TIMESTAMP(3),
  extra STRING
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO nexmark_q1
SELECT
  auction,
  bidder,
  0.908 * price AS price,
  `dateTime`,
  extra
FROM bid;
