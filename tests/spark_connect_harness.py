"""A Spark Connect server of PySpark's own files on loopback, as a process that ends with the tests' process."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyspark
from command_harness import WholeEnd

from sqlstream.runtime.host.java import find_java

START_TIMEOUT_S = 240.0
"""For what a machine does in seconds when nothing else runs on it."""

_PLACE = re.compile(rb"Spark Connect server started at: [^:]*:(\d+)")
_JAVA_OPTIONS = (
    "-Xmx1g",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Djdk.reflect.useDirectMethodHandle=false",
    *(
        f"--add-opens=java.base/{name}=ALL-UNNAMED"
        for name in (
            *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
            *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs"),
            *("sun.security.action", "sun.util.calendar"),
        )
    ),
)
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
logger.place.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.place.level = info
"""
_UNTIL_INPUT_ENDS = '"$@" & echo $!; cat > /dev/null; kill -9 $!; wait'
"""For the shell: the server, which does not look at its input, ends when that does, however this process ends."""


class ConnectServer:
    """Runs from `with` to its end. Its workers find no sqlstream but what is shipped to them: an installed one raises."""

    def __init__(self, directory: Path, cores: int = 2, **settings: str) -> None:
        self._directory = directory
        self._settings = {key.replace("__", "."): value for key, value in settings.items()}
        self._cores = cores
        self.token = secrets.token_hex(8)
        self.port = 0
        self.process_id = 0

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}/;token={self.token}"

    def __enter__(self) -> ConnectServer:
        self.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()

    def start(self, port: int = 0) -> None:
        """Returns when it takes calls."""
        directory = self._directory
        (directory / "log4j2.properties").write_text(_LOG4J)
        (directory / "installed" / "sqlstream").mkdir(parents=True, exist_ok=True)
        (directory / "installed" / "sqlstream" / "__init__.py").write_text(
            "raise ImportError('not shipped')\n"
        )
        (directory / "tmp").mkdir(exist_ok=True)
        settings = {
            "spark.master": f"local[{self._cores}]",
            "spark.app.name": "connect",
            "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.progress.reportInterval": "200ms",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(directory / "local"),
            "java.io.tmpdir": str(directory / "tmp"),
            "spark.sql.warehouse.dir": f"file:{directory}/warehouse",
            "spark.sql.shuffle.partitions": "4",
            **self._settings,
        }
        java = os.path.join(find_java(os.environ).home, "bin", "java")
        home = str(Path(pyspark.__file__).parent)
        log = directory / "server.log"
        self._end = WholeEnd()
        with log.open("wb") as output:
            self._shell = subprocess.Popen(
                [
                    *("/bin/sh", "-c", _UNTIL_INPUT_ENDS, "sh", java, *_JAVA_OPTIONS),
                    f"-Dlog4j2.configurationFile=file:{directory}/log4j2.properties",
                    *(f"-D{key}={value}" for key, value in settings.items()),
                    *("-cp", f"{home}/jars/*", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={
                    **os.environ,
                    "SPARK_HOME": home,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": str(directory / "installed"),
                },
                cwd=directory,
                process_group=0,
            )
        self._end.begin()
        assert self._shell.stdout is not None
        self.process_id = int(self._shell.stdout.readline())
        self.port = self._awaited_port(log)

    def kill(self) -> None:
        """As a machine that loses its power."""
        os.kill(self.process_id, signal.SIGKILL)

    def pause(self) -> None:
        os.kill(self.process_id, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process_id, signal.SIGCONT)

    def stop(self) -> None:
        """End it and its workers. Harmless when repeated."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        is_over = self._shell.poll() is not None
        children = [] if is_over else psutil.Process(self._shell.pid).children(recursive=True)
        self._shell.stdin.close()
        self._shell.stdout.close()
        self._shell.wait(60)
        self._end.check(0, "", children)

    def _awaited_port(self, log: Path) -> int:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while (found := _PLACE.search(log.read_bytes())) is None:
            if time.monotonic() > deadline_s or not Path(f"/proc/{self.process_id}").exists():
                self.stop()
                raise AssertionError(f"the server did not start:\n{log.read_text()}")
            time.sleep(0.05)
        return int(found[1])
