"""The JVM in which Spark's driver runs, as a child of this process."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.errors import ExternalError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.class_archive import ClassArchive
from sqlstream.runtime.batch.spark.quiet_pyspark import quiet_pyspark
from sqlstream.runtime.batch.spark.settings import properties_text
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.java import find_java, java_home
from sqlstream.runtime.host.process import import_root
from sqlstream.runtime.providers.early_children import KEEP_FREED_MEMORY

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer

logger = logging.getLogger("spark")

_STOP_TIMEOUT_S = 2.0
"""How long Spark may take to say goodbye to a cluster. A TaskManager that ends is itself killed soon after."""
_WRITE_TIMEOUT_S = 180.0
"""How long a JVM that writes an archive of its classes may take to end: ten seconds on an idle machine."""
_LOOK_S = 0.02
_LINES_KEPT = 12
_LINE_BYTES_MAX = 65536

_LEVEL = re.compile(r"(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
"""A record of Spark's log begins with its level (see _LOG4J); the lines of a stack trace follow it."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
# What these say of a start, a session with our settings and a cancellation is of no use.
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
logger.sqlconf.name = org.apache.spark.sql.internal.SQLConf
logger.sqlconf.level = error
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""

_POOLS = """\
<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>
</allocations>
"""
"""Statements that run side by side get equal shares, so that a long one does not hold up a short one."""

_IMPORTS = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "scala.Tuple2",
)
"""What PySpark 4.3 expects to find under its short names (pyspark.java_gateway)."""


_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""For the JVM that works out the command of Spark's, and ends."""

_NOT_INHERITED = frozenset({"PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", *KEEP_FREED_MEMORY})
"""Variables for another start of Spark, and those for the memory of a TaskManager, within which Spark may run."""


class SparkJvm:
    """A JVM that runs Spark's driver for as long as this process lives: it ends when its standard input does, which the system
    closes however this process ends. Ctrl-C in a terminal does not reach it.

    PySpark would start it by a fork that runs Python code, which must not happen beside the threads of Arrow.

    State: the process, its last lines of output."""

    def __init__(
        self, settings: Mapping[str, str], directory: str, timeout_s: float, is_given_up: Callable[[], bool]
    ) -> None:
        """Start it and wait until it answers. ExternalError SS5110 without Java, SS5111 when it ends or does not answer;
        BatchCancelled."""
        self.has_run_statement = False
        """Whether it has loaded what a statement needs: else it leaves no archive of its classes."""
        self._is_given_up = is_given_up
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        java = find_java(os.environ)
        self._classes = ClassArchive(java.home, _spark_home(), settings)
        _write_files(settings, directory)
        answer = Path(directory, "gateway")
        environment = _environment(java_home(java, directory), directory, str(answer), settings)
        # The user's options stand behind ours, so that they win where both say something.
        for name, ours in (
            ("SPARK_SUBMIT_OPTS", shlex.join(self._classes.java_options)),
            ("SPARK_LAUNCHER_OPTS", _SHORT_LIVED),
        ):
            environment[name] = f"{ours} {os.environ.get(name, '')}".strip()
        self._process = subprocess.Popen(
            _command(directory),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            close_fds=True,
            process_group=0,
        )
        assert self._process.stdout is not None
        self._output = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="spark-output", daemon=True
        )
        self._output.start()
        try:
            _import_pyspark()
            self.gateway = _connect(self._wait_for(answer, timeout_s))
        except BaseException:
            self.stop()
            raise

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """The last lines that it has printed."""
        return "".join(self._lines).rstrip()

    def stop(self) -> None:
        """End it, by force when it does not end itself. Harmless when repeated; waits for no answer, which may never come."""
        assert self._process.stdin is not None
        # Spark stops its context when this ends.
        self._process.stdin.close()
        is_written = self._classes.is_written and self.has_run_statement
        try:
            code = self._process.wait(_WRITE_TIMEOUT_S if is_written else _STOP_TIMEOUT_S)
            if is_written and code == 0:
                self._classes.keep()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._classes.drop()
        gateway = getattr(self, "gateway", None)
        if gateway is not None:
            with contextlib.suppress(Exception):  # py4j would say goodbye to the JVM too
                gateway.shutdown()

    def _wait_for(self, answer: Path, timeout_s: float) -> tuple[int, str]:
        """The port and the secret of the JVM, which it puts into a file."""
        deadline_s = steady_s() + timeout_s
        while not answer.exists():
            if self._is_given_up():
                raise BatchCancelled
            if not self.is_alive:
                self._output.join(1.0)
                raise self._failed("ended while it started")
            if steady_s() > deadline_s:
                raise self._failed(f"did not answer within {timeout_s:.0f} s")
            time.sleep(_LOOK_S)
        with answer.open("rb") as stream:
            port, length = (int.from_bytes(stream.read(4), "big") for _ in range(2))
            return port, stream.read(length).decode()

    def _failed(self, how: str) -> ExternalError:
        words = self.last_words()
        return ExternalError(
            "SS5111",
            f"Spark could not be started: its JVM {how}",
            detail=f"its last lines are\n{words}" if words else "",
            hint="look at the spark.* settings, such as 'spark.driver.memory'",
        )

    def _read(self, stream: BinaryIO) -> None:
        """Pass its output to our log. Runs on a thread of its own until the stream ends."""
        level = logging.INFO
        while line := stream.readline(_LINE_BYTES_MAX):
            text = line.decode("utf-8", "replace")
            self._lines.append(text)
            match = _LEVEL.match(text)
            if match is not None:
                level = {"WARN": logging.WARNING, "FATAL": logging.ERROR}.get(
                    match[1], getattr(logging, match[1], logging.DEBUG)
                )
            logger.log(level, "%s", text.rstrip()[match.end() if match else 0 :])


def _command(directory: str) -> list[str]:
    """Settings go through a file: command lines can be read by every user of a machine."""
    return [
        str(Path(_spark_home(), "bin", "spark-submit")),
        "--load-spark-defaults",
        "--properties-file",
        f"{directory}/spark.properties",
        "pyspark-shell",
    ]


def _spark_home() -> str:
    import pyspark

    return os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)


def _write_files(settings: Mapping[str, str], directory: str) -> None:
    texts = {
        "spark.properties": properties_text(settings),
        "log4j2.properties": _LOG4J,
        "pools.xml": _POOLS,
    }
    for name, text in texts.items():
        Path(directory, name).write_text(text)
    for name in ("local", "tmp"):
        Path(directory, name).mkdir(exist_ok=True)


def _environment(home: str, directory: str, answer: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Workers of a Spark on this machine inherit the import path, so that they find our packages."""
    root = import_root()
    kept = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
    host = settings.get("spark.driver.host")
    return {
        **kept,
        **({"SPARK_LOCAL_IP": host} if host else {}),
        "JAVA_HOME": home,
        "PYTHONPATH": os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_CONNECT_MODE": "0",
        "TMPDIR": f"{directory}/tmp",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": answer,
    }


def _import_pyspark() -> None:
    """Import what statements need while the JVM starts."""
    quiet_pyspark()
    importlib.import_module("sqlstream.runtime.batch.spark.statement")
    for name in ("pyspark.sql.classic.dataframe", "pyspark.sql.pandas.functions", "pyspark.testing.utils"):
        importlib.import_module(name)


def _connect(place: tuple[int, str]) -> ClientServer:
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
    from py4j.java_gateway import java_import

    port, secret = place
    gateway: Any = ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )
    for name in _IMPORTS:
        java_import(gateway.jvm, name)
    return gateway
