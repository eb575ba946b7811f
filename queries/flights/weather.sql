-- The same with the weather of the hour: a window join.
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

CREATE TABLE weather (
  origin STRING,
  `year` INT,
  `month` INT,
  `day` INT,
  `hour` INT,
  temp DOUBLE,
  dewp DOUBLE,
  humid DOUBLE,
  wind_dir DOUBLE,
  wind_speed DOUBLE,
  wind_gust DOUBLE,
  precip DOUBLE,
  pressure DOUBLE,
  visib DOUBLE,
  time_hour STRING,
  observed AS TO_TIMESTAMP(time_hour, 'yyyy-MM-dd''T''HH:mm:ss''Z'''),
  WATERMARK FOR observed AS observed
) WITH (
  'connector' = 'filesystem',
  'path' = 'queries/data/weather.csv',
  'format' = 'csv',
  'csv.header' = 'true',
  'csv.null-literal' = 'NA'
);

CREATE VIEW hourly AS
SELECT origin, window_start, window_end,
       COUNT(*) AS departures,
       COUNT(*) FILTER (WHERE dep_time IS NULL) AS cancelled,
       AVG(CAST(dep_delay AS DOUBLE)) AS mean_delay,
       MAX(dep_delay) AS worst_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departure), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end;

CREATE TABLE flights_weather (
  origin STRING,
  window_start TIMESTAMP(3),
  departures BIGINT,
  cancelled BIGINT,
  mean_delay DOUBLE,
  worst_delay INT,
  temp DOUBLE,
  wind_speed DOUBLE,
  precip DOUBLE
) WITH (
  'connector' = 'blackhole'
);

INSERT INTO flights_weather
SELECT f.origin, f.window_start, f.departures, f.cancelled, f.mean_delay, f.worst_delay, w.temp, w.wind_speed, w.precip
FROM hourly AS f
LEFT JOIN (
  SELECT origin, temp, wind_speed, precip, window_start, window_end
  FROM TABLE(TUMBLE(TABLE weather, DESCRIPTOR(observed), INTERVAL '1' HOUR))
) AS w
ON f.origin = w.origin AND f.window_start = w.window_start AND f.window_end = w.window_end;
