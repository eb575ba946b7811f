-- Departures and delays per airport and hour: a window aggregate.
-- No flight leaves a day behind the others, so none is late.

CREATE TABLE flights (
  `year` INT,
  `month` INT,
  `day` INT,
  dep_time INT,
  sched_dep_time INT,
  dep_delay INT,
  arr_time INT,
  sched_arr_time INT,
  arr_delay INT,
  carrier STRING,
  flight INT,
  tailnum STRING,
  origin STRING,
  dest STRING,
  air_time INT,
  distance INT,
  `hour` INT,
  `minute` INT,
  time_hour STRING,
  departure AS TIMESTAMPADD(MINUTE, `minute`, TO_TIMESTAMP(time_hour, 'yyyy-MM-dd''T''HH:mm:ss''Z''')),
  WATERMARK FOR departure AS departure - INTERVAL '1' DAY
) WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/flights.csv',
  'format' = 'csv',
  'csv.header' = 'true',
  'csv.null-literal' = 'NA'
);

CREATE TABLE flights_hourly (
  origin STRING,
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  departures BIGINT,
  cancelled BIGINT,
  mean_delay DOUBLE,
  worst_delay INT
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO flights_hourly
SELECT origin, window_start, window_end,
       COUNT(*) AS departures,
       COUNT(*) FILTER (WHERE dep_time IS NULL) AS cancelled,
       AVG(CAST(dep_delay AS DOUBLE)) AS mean_delay,
       MAX(dep_delay) AS worst_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departure), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end;
