-- URL directories: the three directories of the url of each bid.

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

CREATE TABLE nexmark_q22 (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  dir1 STRING,
  dir2 STRING,
  dir3 STRING
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO nexmark_q22
SELECT
  auction,
  bidder,
  price,
  channel,
  SPLIT_INDEX(url, '/', 3) AS dir1,
  SPLIT_INDEX(url, '/', 4) AS dir2,
  SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid;
