CREATE TABLE orders (id INT, city STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'data/orders', 'format' = 'debezium-json');
CREATE TABLE sums (city STRING, total INT)
WITH ('connector' = 'filesystem', 'path' = 'data/sums.json', 'format' = 'maxwell-json');

SELECT * FROM orders;
SELECT COUNT(*) AS orders, SUM(amount) AS total FROM orders WHERE amount > 8;
SELECT o.id, o.city, s.total FROM orders AS o LEFT JOIN sums AS s ON o.city = s.city;
SELECT city, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY amount DESC) AS n FROM orders) WHERE n = 1;
SELECT city FROM orders UNION ALL SELECT city FROM sums;
