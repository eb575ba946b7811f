-- Each day's three worst carriers by mean delay: a window Top-N.
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

CREATE TABLE flights_carriers (
  window_start TIMESTAMP(3),
  carrier STRING,
  mean_delay DOUBLE,
  departures BIGINT,
  place BIGINT
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO flights_carriers
SELECT window_start, carrier, mean_delay, departures, place
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY mean_delay DESC, carrier) AS place
  FROM (
    SELECT carrier, window_start, window_end,
           AVG(CAST(dep_delay AS DOUBLE)) AS mean_delay,
           COUNT(*) AS departures
    FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departure), INTERVAL '1' DAY))
    GROUP BY carrier, window_start, window_end
  )
)
WHERE place <= 3;
