CREATE TABLE clicks (
  id INT, who STRING, page STRING, points INT, price DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/clicks', 'format' = 'csv', 'csv.null-literal' = '');
CREATE TABLE users (who STRING, city STRING, place INT)
WITH ('connector' = 'filesystem', 'path' = 'data/users.csv', 'format' = 'csv');

SELECT c.id, u.city FROM clicks AS c JOIN users AS u ON c.who = u.who AND c.points > u.place;
SELECT u.who, u.city, t.total FROM users AS u
LEFT JOIN (SELECT who, SUM(points) AS total FROM clicks GROUP BY who) AS t ON t.who = u.who;
SELECT u.city, COUNT(*) AS clicks FROM clicks AS c LEFT JOIN users AS u ON c.who = u.who GROUP BY u.city;
