"""The connectors that come with sqlstream, one line each, and those of other packages.

A module is imported when its connector is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from sqlstream.runtime.registry import Descriptors, make_named
from sqlstream.spi.connector import Connector, ConnectorDescriptor
from sqlstream.spi.packages import Kind

CONNECTORS: dict[str, str] = {
    "blackhole": "sqlstream.runtime.connectors.plain_sinks:Blackhole",
    "checksum": "sqlstream.runtime.connectors.checksum:Checksum",
    "collect": "sqlstream.runtime.connectors.plain_sinks:Collect",
    "datagen": "sqlstream.runtime.connectors.generators.datagen:Datagen",
    "duckdb": "sqlstream.runtime.connectors.duckdb.connector:DuckDb",
    "expired-rows": "sqlstream.runtime.connectors.expired_rows:ExpiredRowsConnector",
    "faker": "sqlstream.runtime.connectors.generators.faker:Faker",
    "filesystem": "sqlstream.runtime.connectors.files.filesystem:Filesystem",
    "http": "sqlstream.runtime.connectors.http.connector:Http",
    "http-sink": "sqlstream.runtime.connectors.http.connector:HttpSink",
    "jdbc": "sqlstream.runtime.connectors.jdbc.connector:Jdbc",
    "kafka": "sqlstream.runtime.connectors.kafka.connector:Kafka",
    "model-weights": "sqlstream.runtime.connectors.model_weights:ModelWeights",
    "nexmark": "sqlstream.runtime.connectors.generators.nexmark:Nexmark",
    "upsert-kafka": "sqlstream.runtime.connectors.kafka.connector:UpsertKafka",
    "print": "sqlstream.runtime.connectors.print:Print",
    "rest-lookup": "sqlstream.runtime.connectors.http.connector:RestLookup",
    "socket": "sqlstream.runtime.connectors.tcp_socket:Socket",
    "sse": "sqlstream.runtime.connectors.http.sse:Sse",
    "webhook": "sqlstream.runtime.connectors.http.webhook:Webhook",
    "websocket": "sqlstream.runtime.connectors.http.websocket:WebSocket",
}
"""Identifier, as in `'connector' = '…'`, to `module:Class`."""


@functools.cache
def connector(identifier: str) -> Connector:
    """The connector of that name. UserError SS4004 with a suggestion when there is none, SS4014 to SS4016 for a package that
    cannot be used."""
    made: Connector = make_named(Kind.CONNECTOR, "SS4004", CONNECTORS, identifier, ConnectorDescriptor)
    return made


def descriptors() -> Mapping[str, ConnectorDescriptor]:
    """The descriptors of all connectors, for the planner."""
    return Descriptors(Kind.CONNECTOR, CONNECTORS, lambda identifier: connector(identifier).descriptor)
