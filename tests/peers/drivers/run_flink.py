"""Runs statements on a Flink cluster for the comparison, through Flink's own Java Table API.

`sys.argv[1]` is a JSON object: `java` (the JVM's command line up to the main class), `connection` (a file that the JVM writes
the port it listens on to), `configuration` (of the client) and `settings` (of the tables).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError
from serve import serve

MAIN_CLASS = "org.apache.flink.client.python.PythonGatewayServer"
START_TIMEOUT_S = 120


class Watchdog:
    """The JVM asks it whether this process is alive, and ends when it gets no answer."""

    def ping(self) -> bool:
        time.sleep(10)
        return True

    class Java:
        implements = ["org.apache.flink.client.python.PythonGatewayServer$Watchdog"]


class Flink:
    """A table environment in a JVM that is a child of this process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._settings = options["settings"]
        connection = Path(options["connection"])
        connection.unlink(missing_ok=True)
        self._jvm_process = subprocess.Popen(
            [*options["java"], MAIN_CLASS],
            stdin=subprocess.PIPE,
            stdout=2,
            env={**os.environ, "_PYFLINK_CONN_INFO_PATH": str(connection)},
        )
        self._gateway = _connect(self._port(connection))
        self._jvm = self._gateway.jvm
        configuration = self._jvm.org.apache.flink.configuration.Configuration()
        for key, value in options["configuration"].items():
            configuration.setString(key, value)
        settings = self._jvm.org.apache.flink.table.api.EnvironmentSettings
        self._environment_settings = (
            settings.newInstance().inStreamingMode().withConfiguration(configuration).build()
        )

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the request's `setup`, then its `job`; the last row when the job is a query, else how long it took."""
        tables = self._jvm.org.apache.flink.table.api.TableEnvironment.create(self._environment_settings)
        for key, value in self._settings.items():
            tables.getConfig().set(key, value)
        for statement in request["setup"]:
            tables.executeSql(statement)
        started = time.perf_counter()
        result = tables.executeSql(request["job"])
        if request["is_query"]:
            return {"row": _last_row(result)}
        seconds = self._jvm.java.util.concurrent.TimeUnit.SECONDS
        try:
            getattr(result, "await")(int(request["timeout_s"]), seconds)
        except Py4JJavaError:
            result.getJobClient().get().cancel()
            raise
        return {"wall_s": time.perf_counter() - started}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._gateway.shutdown()
        self._jvm_process.terminate()
        try:
            self._jvm_process.wait(10)
        except subprocess.TimeoutExpired:
            self._jvm_process.kill()

    def _port(self, connection: Path) -> int:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (connection.exists() and connection.stat().st_size >= 4):
            if self._jvm_process.poll() is not None or time.monotonic() > deadline:
                self._jvm_process.kill()
                raise RuntimeError("the JVM of Flink's client did not start")
            time.sleep(0.05)
        port: int = struct.unpack("!I", connection.read_bytes()[:4])[0]
        return port


def _connect(port: int) -> Any:
    """The gateway to the JVM, with the way back that its watchdog wants."""
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auto_convert=True),
        callback_server_parameters=CallbackServerParameters(
            port=0, daemonize=True, daemonize_connections=True
        ),
    )
    callback = gateway.get_callback_server()
    gateway.jvm.org.apache.flink.client.python.PythonEnvUtils.resetCallbackClient(
        gateway.java_gateway_server, callback.get_listening_address(), callback.get_listening_port()
    )
    gateway.entry_point.put("Watchdog", Watchdog())
    return gateway


def _last_row(result: Any) -> list[int]:
    """The last row that the changelog leaves."""
    row: list[int] = []
    rows = result.collect()
    while rows.hasNext():
        change = rows.next()
        if change.getKind().shortString() in ("+I", "+U"):
            row = [change.getField(index) for index in range(change.getArity())]
    rows.close()
    return row


def main() -> None:
    flink = Flink(json.loads(sys.argv[1]))
    # Asked to end: leave through `finally`, which ends the JVM too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        serve(flink.answer)
    finally:
        flink.close()


if __name__ == "__main__":
    main()
