-- # What scripts declare
-- Clauses and options of tables as the cookbook, Nexmark, tutorials and services write them.

-- : metadata of messages
CREATE TABLE t (id BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, `partition` BIGINT METADATA VIRTUAL, WATERMARK FOR ts AS ts) WITH ({kafka}); EXPLAIN SELECT * FROM t;
-- : metadata of messages, written
CREATE TABLE t (id BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ({kafka}); EXPLAIN INSERT INTO t VALUES (1, CURRENT_TIMESTAMP);
-- : metadata of change events
CREATE TABLE t (id BIGINT, db STRING METADATA FROM 'value.source.database' VIRTUAL) WITH ({kafka_options}, 'value.format' = 'debezium-json'); EXPLAIN SELECT * FROM t;
-- : keys as text
CREATE TABLE t (k STRING, id BIGINT) WITH ({kafka_options}, 'key.format' = 'raw', 'key.fields' = 'k', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'); EXPLAIN SELECT * FROM t;
-- : a topic that is only written, without a consumer group
CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'); EXPLAIN INSERT INTO t VALUES (1);
-- : changes by key
CREATE TABLE t (region STRING, views BIGINT, PRIMARY KEY (region) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'views', 'properties.bootstrap.servers' = 'localhost:9092', 'key.format' = 'csv', 'value.format' = 'csv'); EXPLAIN INSERT INTO t SELECT r, COUNT(*) FROM (VALUES ('eu')) AS s (r) GROUP BY r;
-- : properties of Java's clients
CREATE TABLE t (id BIGINT) WITH ({kafka}, 'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";', 'properties.max.poll.records' = '500', 'properties.request.timeout.ms' = '20000', 'properties.enable.auto.commit' = 'false'); EXPLAIN SELECT * FROM t;
-- : properties of deserializers
CREATE TABLE t (id BIGINT) WITH ({kafka}, 'properties.value.deserializer' = 'org.apache.kafka.common.serialization.StringDeserializer'); EXPLAIN SELECT * FROM t;
-- : Java's stores of keys
CREATE TABLE t (id BIGINT) WITH ({kafka}, 'properties.security.protocol' = 'SSL', 'properties.ssl.truststore.location' = 'certificates.jks', 'properties.ssl.truststore.password' = 'secret');
-- : CREATE TABLE … LIKE (EXCLUDING OPTIONS)
CREATE TABLE k (id BIGINT) WITH ({kafka}); CREATE TABLE t WITH ('connector' = 'print') LIKE k (EXCLUDING OPTIONS); EXPLAIN INSERT INTO t SELECT * FROM k;
-- : CREATE TABLE … LIKE with another topic
CREATE TABLE k (id BIGINT) WITH ({kafka}); CREATE TABLE t WITH ('topic' = 'others') LIKE k; EXPLAIN INSERT INTO t SELECT * FROM k;
-- : CREATE TABLE … LIKE (INCLUDING ALL OVERWRITING WATERMARKS)
CREATE TABLE k (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({kafka}); CREATE TABLE t (WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) LIKE k (INCLUDING ALL OVERWRITING WATERMARKS); EXPLAIN SELECT * FROM t;
-- : options in hints
CREATE TABLE t (id BIGINT) WITH ({kafka}); EXPLAIN SELECT * FROM t /*+ OPTIONS('scan.startup.mode' = 'latest-offset', 'scan.parallelism' = '2') */;
-- : options in hints of INSERT
CREATE TABLE t (id BIGINT) WITH ({kafka}); EXPLAIN INSERT INTO t /*+ OPTIONS('sink.partitioner' = 'round-robin', 'sink.parallelism' = '2') */ VALUES (1);
-- : lines of a socket
CREATE TABLE t (name STRING, score INT) WITH ('connector' = 'socket', 'hostname' = 'localhost', 'port' = '9999', 'byte-delimiter' = '10', 'format' = 'csv'); EXPLAIN SELECT * FROM t;
-- : the time of a lookup join, declared in the table that is looked up
CREATE TABLE o (id STRING) WITH ('connector' = 'datagen'); CREATE TABLE t (id STRING, name STRING, p AS PROCTIME()) WITH ('connector' = 'faker', 'fields.id.expression' = '1', 'fields.name.expression' = '#{name.name}'); EXPLAIN SELECT o.id, t.name FROM o JOIN t FOR SYSTEM_TIME AS OF p AS t ON o.id = t.id;
-- : an expression of faker for a computed column
CREATE TABLE t (id INT, ts AS PROCTIME()) WITH ('connector' = 'faker', 'fields.id.expression' = '1', 'fields.ts.expression' = '#{date.past ''1'',''SECONDS''}'); EXPLAIN SELECT * FROM t;
-- : settings without quotes
SET execution.checkpointing.interval = 3s; SET table.local-time-zone=UTC; SET 'pipeline.operator-chaining' = 'false';
-- : answers of HTTP by key
CREATE TABLE o (id STRING, p AS PROCTIME()) WITH ('connector' = 'datagen'); CREATE TABLE t (id STRING, msg STRING, details ROW<active BOOLEAN>) WITH ('connector' = 'rest-lookup', 'url' = 'http://localhost:8080/client', 'format' = 'json', 'asyncPolling' = 'true', 'gid.connector.http.source.lookup.header.Origin' = '*'); EXPLAIN SELECT o.id, t.msg, t.details.active FROM o JOIN t FOR SYSTEM_TIME AS OF o.p ON o.id = t.id;
-- : rows sent over HTTP
CREATE TABLE t (id BIGINT) WITH ('connector' = 'http-sink', 'url' = 'http://localhost:8080/rows', 'format' = 'json', 'insert-method' = 'PUT', 'gid.connector.http.sink.request.timeout' = '10'); EXPLAIN INSERT INTO t VALUES (1);
-- : DISTRIBUTED BY
CREATE TABLE t (id BIGINT) DISTRIBUTED BY HASH(id) INTO 4 BUCKETS WITH ({kafka});
-- : a service's time of messages
CREATE TABLE t (id BIGINT) WITH ({kafka}); EXPLAIN SELECT $rowtime, id FROM t;
-- : a service's mode of changes
CREATE TABLE t (id BIGINT) WITH ({kafka}, 'changelog.mode' = 'append');
-- : a service's options of topics
CREATE TABLE t (id BIGINT) WITH ({kafka}, 'kafka.retention.time' = '7 d');
-- : a service's tables without a connector
CREATE TABLE t (id BIGINT);
-- : options of Flink 1.10
CREATE TABLE t (id BIGINT) WITH ('connector.type' = 'kafka', 'connector.version' = 'universal', 'connector.topic' = 'orders', 'format.type' = 'json');
-- : connectors with a version
CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka-0.11', 'topic' = 'orders', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
