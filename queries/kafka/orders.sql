-- Kafka in, windows, Kafka out, exactly once: orders are made up and written to a topic; each five seconds of them are counted for each
-- city and written to another topic in the transactions of checkpoints; what is committed there is printed.
SET 'execution.checkpointing.interval' = '1 s';

CREATE TABLE orders (
  city STRING,
  product STRING,
  amount DECIMAL(10, 2),
  order_time TIMESTAMP_LTZ(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'key.format' = 'raw',
  'key.fields' = 'city',
  'value.format' = 'json'
);

CREATE TABLE totals (
  window_end TIMESTAMP(3),
  city STRING,
  orders BIGINT,
  revenue DECIMAL(38, 2)
) WITH (
  'connector' = 'kafka',
  'topic' = 'totals',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'demo'
);

CREATE TABLE made_up WITH (
  'connector' = 'faker',
  'rows-per-second' = '500',
  'fields.city.expression' = '#{options.option ''Berlin'',''Lagos'',''Lima'',''Osaka''}',
  'fields.product.expression' = '#{commerce.productName}',
  'fields.amount.expression' = '#{number.randomDouble ''2'',''1'',''100''}',
  'fields.order_time.expression' = '#{date.past ''1'',''SECONDS''}'
) LIKE orders (EXCLUDING ALL);

CREATE TABLE shown WITH ('connector' = 'print', 'print-identifier' = 'totals') LIKE totals (EXCLUDING ALL);

EXECUTE STATEMENT SET BEGIN
  INSERT INTO orders SELECT * FROM made_up;

  INSERT INTO totals
  SELECT window_end, city, COUNT(*), SUM(amount)
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(order_time), INTERVAL '5' SECOND))
  GROUP BY window_start, window_end, city;

  INSERT INTO shown SELECT * FROM totals;
END;
