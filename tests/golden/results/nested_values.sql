CREATE TABLE documents (
  id INT, who ROW<name STRING, home ROW<city STRING>>, tags ARRAY<STRING>, scores MAP<STRING, INT>
) WITH ('connector' = 'filesystem', 'path' = 'data/documents.json', 'format' = 'json');

SELECT id, who.name AS name, documents.who.home.city AS city, tags[1] AS first_tag, CARDINALITY(tags) AS tags,
  scores['y'] AS y FROM documents;
SELECT who, tags, scores FROM documents;
