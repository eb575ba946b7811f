"""The connectors `kafka` and `upsert-kafka`: topics of Apache Kafka, through librdkafka.

The package reaches the engine by the open door alone (docs/adding/connector.md): its descriptors, what it implements of
sqlstream/spi, and its lines in the registry.
"""
