-- New York's flight departures of July 2013 and the hourly weather, as a stream.
-- Flights come in the order in which the planes left; their event time is the scheduled departure, so they are out of
-- order by minutes to hours. The watermark waits a day for them, and no flight leaves later than that. With INTERVAL '3' HOUR
-- windows would close sooner, and flights that come later would be dropped, counted and told.
--
--   sqlstream run queries/getting_started.sql

SET 'parallelism.default' = '2';

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
  'csv.null-literal' = 'NA',
  'scan.watermark.emit.strategy' = 'on-event'
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

-- Departures and delays per airport and hour.
CREATE VIEW hourly AS
SELECT origin, window_start, window_end,
       COUNT(*) AS departures,
       COUNT(*) FILTER (WHERE dep_time IS NULL) AS cancelled,
       AVG(CAST(dep_delay AS DOUBLE)) AS mean_delay,
       MAX(dep_delay) AS worst_delay
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(departure), INTERVAL '1' HOUR))
GROUP BY origin, window_start, window_end;

-- The same with that hour's weather: a window join.
CREATE VIEW hourly_with_weather AS
SELECT f.origin, f.window_start, f.departures, f.cancelled, f.mean_delay, f.worst_delay, w.temp, w.wind_speed, w.precip
FROM hourly AS f
LEFT JOIN (
  SELECT origin, temp, wind_speed, precip, window_start, window_end
  FROM TABLE(TUMBLE(TABLE weather, DESCRIPTOR(observed), INTERVAL '1' HOUR))
) AS w
ON f.origin = w.origin AND f.window_start = w.window_start AND f.window_end = w.window_end;

-- Each day's three worst carriers by mean delay: a window Top-N.
CREATE VIEW worst_carriers AS
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

CREATE TABLE hourly_files (
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
  'connector' = 'filesystem',
  'path' = 'out/hourly_with_weather',
  'format' = 'parquet'
);

CREATE TABLE carrier_files (
  window_start TIMESTAMP(3),
  carrier STRING,
  mean_delay DOUBLE,
  departures BIGINT,
  place BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = 'out/worst_carriers',
  'format' = 'parquet'
);

-- One job: the flights are read once and feed both files.
EXECUTE STATEMENT SET BEGIN
  INSERT INTO hourly_files SELECT * FROM hourly_with_weather;
  INSERT INTO carrier_files SELECT * FROM worst_carriers;
END;

-- The hours in which planes left latest, with their weather.
SELECT origin, window_start, departures, cancelled, ROUND(mean_delay, 1) AS mean_delay, temp, wind_speed, precip
FROM hourly_with_weather
WHERE departures >= 5
ORDER BY mean_delay DESC
LIMIT 8;

-- The carriers that were among a day's worst most often.
SELECT carrier, COUNT(*) AS days_among_worst, ROUND(AVG(mean_delay), 1) AS mean_delay
FROM worst_carriers
GROUP BY carrier
ORDER BY days_among_worst DESC, carrier
LIMIT 8;
