CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'sink.semantic' = 'exactly-once');
CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'connector.properties.group.id' = 'g');
CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'changelog.mode' = 'append');
CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'kafka.retention.time' = '7 d');
CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'key.format' = 'json', 'value.format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json', 'properties.flink.partition-discovery.interval-millis' = '1000');
CREATE TABLE k (id INT, WATERMARK FOR `$rowtime` AS `$rowtime`) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json');
