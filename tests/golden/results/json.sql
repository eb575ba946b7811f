CREATE TEMPORARY VIEW events (id, city, doc) AS SELECT * FROM (VALUES
  (1, 'rome', '{"user": {"name": "a\u0041", "age": 30}, "tags": ["x", "y"], "price": 1.50}'),
  (2, 'oslo', '{"user": {"name": "b"}, "tags": [], "price": 1e3, "price": 7}'),
  (3, 'rome', '{"user": null, "tags": [{"k": [1, 2]}]}'),
  (4, 'rome', 'no json'),
  (5, 'oslo', CAST(NULL AS STRING))) AS t;
CREATE TEMPORARY VIEW totals (city, total) AS SELECT city, SUM(id) FROM events GROUP BY city;

SELECT id, JSON_VALUE(doc, '$.user.name') AS name, JSON_VALUE(doc, '$.user.age' RETURNING INT DEFAULT -1 ON ERROR) AS age,
  JSON_QUERY(doc, '$.tags') AS tags, JSON_VALUE(doc, '$.price') AS price, doc IS JSON AS is_json FROM events;
SELECT id, JSON_QUERY(doc, 'lax $..k[1]') AS k, JSON_EXISTS(doc, '$.tags[0]') AS e, JSON_LENGTH(doc, '$.tags') AS n FROM events;
SELECT city, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE JSON_VALUE(doc, '$.user.name')) AS names, JSON_ARRAYAGG(city) AS cities FROM events GROUP BY city;
SELECT JSON_OBJECTAGG(city VALUE total) AS totals, JSON_LENGTH(JSON_ARRAYAGG(total NULL ON NULL)) AS n FROM totals;
SELECT e.id, v.v.`user`.name AS name, v.v['tags'][1] AS tag FROM events AS e
  LEFT JOIN (SELECT id, LAST_VALUE(TRY_PARSE_JSON(doc, TRUE)) AS v FROM events GROUP BY id) AS v ON e.id = v.id;
SELECT JSON_OBJECT('id' VALUE id, 'city': city, 'raw' VALUE JSON(CASE WHEN doc IS JSON THEN doc END) ABSENT ON NULL) AS o FROM events;
