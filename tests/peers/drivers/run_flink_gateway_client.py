"""Uses PyPI's py-flink-sql-gateway against a gateway: `run_flink_gateway_client.py URL`; prints what it got as JSON."""

from __future__ import annotations

import json
import sys

from flink_gateway import (
    CompleteStatementRequest,
    ConfigureSessionRequest,
    FlinkSqlGatewayClient,
    FlinkSqlGatewayError,
    OpenSessionRequest,
    connect,
)

TYPES = """SELECT CAST(7 AS TINYINT), CAST(2.50 AS DECIMAL(10, 2)), 'a', TRUE, CAST(NULL AS INT), 1.5E0,
 DATE '2024-02-29', TIMESTAMP '2024-02-29 01:02:03.456', ARRAY[1, 2], MAP['k', 1]"""
TABLE = """CREATE TEMPORARY TABLE g (id BIGINT) WITH ('connector'='datagen', 'number-of-rows'='50000',
 'rows-per-second'='1000000', 'fields.id.kind'='sequence', 'fields.id.start'='1', 'fields.id.end'='50000')"""


def plain_client(url: str) -> dict[str, object]:
    """Every call of the client."""
    found: dict[str, object] = {}
    with FlinkSqlGatewayClient(url) as client:
        found["product"] = client.get_info().product_name
        found["versions"] = client.get_api_versions()
        session = client.open_session(OpenSessionRequest(properties={"pipeline.name": "n"}))
        client.configure_session(session, ConfigureSessionRequest(statement="SET 'table.dml-sync' = 'true'"))
        found["config"] = client.get_session_config(session)
        client.heartbeat(session)
        found["candidates"] = client.complete_statement(
            session, CompleteStatementRequest(position=3, statement="SEL")
        )
        client.close_session(session)
        try:
            client.get_session_config(session)
        except FlinkSqlGatewayError as error:
            found["unknown session"] = str(error)
    return found


def database_api(url: str) -> dict[str, object]:
    """Its PEP 249 connection."""
    found: dict[str, object] = {}
    with connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(TYPES)
        found["types"] = [str(value) for value in cursor.fetchone() or ()]
        cursor.execute(TABLE)
        cursor.execute("SELECT id FROM g")
        found["sum"] = sum(row[0] for row in cursor)
        cursor.execute("SHOW TABLES")
        found["tables"] = cursor.fetchall()
        try:
            cursor.execute("SELECT x FROM nowhere")
        except FlinkSqlGatewayError as error:
            found["error"] = str(error)
    return found


if __name__ == "__main__":
    print(json.dumps({"client": plain_client(sys.argv[1]), "database api": database_api(sys.argv[1])}))
