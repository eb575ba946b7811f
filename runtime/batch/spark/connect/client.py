"""Connections to Spark Connect servers, by PySpark's client: how long it tries, and how long it waits."""

from __future__ import annotations

import atexit
import os
import socket
import warnings
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ExternalError
from sqlstream.runtime.batch.spark.connect.address import ConnectAddress
from sqlstream.runtime.batch.spark.packages import require_packages
from sqlstream.runtime.batch.spark.quiet_pyspark import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

CONNECT_TIMEOUT_S = 5.0
"""How long a server may take to accept a connection."""

CALL_TIMEOUT_S = 30.0
"""How long it may take to answer a call that computes nothing."""

PLAN_TIMEOUT_S = 600.0
"""How long it may take to plan a statement, or to take our code."""

_RETRIES = {
    "max_retries": 7,
    "initial_backoff": 100,
    "backoff_multiplier": 2.0,
    "max_backoff": 2000,
    "jitter": 100,
}
"""A server that is gone is given up after 8 s. PySpark itself would try for ten minutes."""

_CHANNEL = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.initial_reconnect_backoff_ms", 100)]


def check_reachable(address: ConnectAddress) -> None:
    """ExternalError SS5112 unless something accepts a connection there."""
    try:
        with socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S):
            return
    except OSError as error:
        raise ExternalError(
            "SS5112",
            f'could not reach the Spark Connect server "{address}": {(error.strerror or str(error)).lower()}',
            hint="start it, or SET 'spark.remote' to where it is",
        ) from error


def open_session(address: ConnectAddress) -> SparkSession:
    """A session of its own at the server, which learns of it with the first call. ExternalError SS5115 for missing packages."""
    require_packages(is_connect=True)
    # What its C library says of a lost connection is an error of ours, and would go to the terminal.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    quiet_pyspark()
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
    # Of one that the SQL needs as it is.
    warnings.filterwarnings(
        "ignore", "The SQL config 'spark.sql.parser.escapedStringLiterals' has been deprecated"
    )
    from pyspark.sql.connect.client.core import RpcDeadlines, SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    client = SparkConnectClient(
        _channel_builder(address),
        retry_policy=_RETRIES,
        rpc_deadlines=RpcDeadlines(
            analyze_plan=PLAN_TIMEOUT_S,
            add_artifacts=PLAN_TIMEOUT_S,
            config=CALL_TIMEOUT_S,
            interrupt=CALL_TIMEOUT_S,
            release_session=CONNECT_TIMEOUT_S,
            artifact_status=CALL_TIMEOUT_S,
            fetch_error_details=CALL_TIMEOUT_S,
        ),
    )
    # It would ask the server to clean up when the process ends, and be kept for that until then.
    atexit.unregister(client._on_exit)
    # As SparkSession.newSession does: its constructor takes no deadlines.
    session: SparkSession = object.__new__(SparkSession)
    session._client = client
    session._session_id = client._session_id
    session.release_session_on_close = True
    return session


def _channel_builder(address: ConnectAddress) -> Any:
    """PySpark's, but that a token goes over an unencrypted connection to this machine by any of its names."""
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    class ChannelBuilder(DefaultChannelBuilder):  # type: ignore[misc]  # PySpark is Any to the type checker
        def toChannel(self) -> Any:  # noqa: N802 (PySpark's name)
            if not address.is_encrypted and not address.token:
                return self._insecure_channel(self.endpoint)
            encryption = (
                grpc.ssl_channel_credentials() if address.is_encrypted else grpc.local_channel_credentials()
            )
            if not address.token:
                return self._secure_channel(self.endpoint, encryption)
            token = grpc.access_token_call_credentials(address.token)
            return self._secure_channel(self.endpoint, grpc.composite_channel_credentials(encryption, token))

    builder = ChannelBuilder(f"sc://{address.place}", list(_CHANNEL))
    builder.set("user_agent", "sqlstream")
    for name, value in address.parameters:
        builder.set(name, value)
    return builder
