"""A standalone Spark cluster of PySpark's own files: a master, and workers of one core, each a process."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import pyspark
from command_harness import WholeEnd, children_of

from spark_harness.processes import FAST_JVM, WAIT_S
from sqlstream.runtime.host.java import find_java

_ADDRESS = re.compile(rb"Starting Spark master at (spark://\S+)")
Found = TypeVar("Found")

_PROPERTIES = "cluster.properties"
_SECRET = "spark.authenticate.secret"
_REGISTERED = b"Successfully registered with master"
_JAVA_OPTIONS = (
    "-Xmx256m",
    *FAST_JVM.split(),
    "-XX:-UsePerfData",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "java.lang")),
)


class Place(Protocol):
    """Where a process of the cluster runs."""

    @property
    def name(self) -> str:
        """Under which others reach it."""

    def command(self, words: Sequence[str]) -> list[str]:
        """A command that runs `words` there."""


class ThisMachine:
    """Loopback. Implements `Place`."""

    name = "127.0.0.1"

    def command(self, words: Sequence[str]) -> list[str]:
        return list(words)


class StandaloneCluster:
    """Master and workers from `with` to its end, when all of them are killed. The first of `places` is the master's, and each
    of the others has a worker. They see `directory` as `seen_as`. `settings` are those of an application: where the cluster is,
    and its secret, which switches authentication on."""

    def __init__(
        self,
        directory: Path,
        places: Sequence[Place] = (ThisMachine(), ThisMachine(), ThisMachine()),
        *,
        is_encrypted: bool = True,
        seen_as: Path | None = None,
    ) -> None:
        self._directory = directory
        self._seen_as = seen_as or directory
        self._places = places
        self._secret = {"spark.authenticate": "true", _SECRET: secrets.token_hex(16)}
        if is_encrypted:
            self._secret["spark.network.crypto.enabled"] = "true"
        self._end = WholeEnd()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        settings = {**self._secret, "spark.master.rest.enabled": "false", "spark.master.ui.enabled": "false"}
        properties = self._directory / _PROPERTIES
        properties.touch(0o600)
        properties.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        try:
            log = self._start("master.Master", "master", self._places[0])
            self.master = _first(log, _ADDRESS.search)[1].decode()
            for number, place in enumerate(self._places[1:]):
                self.start_worker(f"worker-{number}", place)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored: object) -> None:
        # Executors end when they miss their workers.
        executors = [e for p in self.processes if p.poll() is None for e in children_of(p.pid)]
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self._end.check(-signal.SIGKILL, "", executors)

    @property
    def settings(self) -> dict[str, str]:
        return {"spark.master": self.master, _SECRET: self._secret[_SECRET]}

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return [p for p in self.processes[1:] if p.poll() is None]

    def start_worker(self, name: str, place: Place | None = None) -> None:
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._seen_as / name))
        log = self._start("worker.Worker", name, place or self._places[1], *options, self.master)
        _first(log, lambda line: _REGISTERED in line or None)

    def executor_logs(self, worker: str) -> list[Path]:
        """One for each executor that a worker has started."""
        return sorted((self._directory / worker).glob("app-*/*/stderr"))

    def _start(self, main: str, name: str, place: Place, *options: str) -> BinaryIO:
        java = os.path.join(find_java(os.environ).home, "bin", "java")
        home = str(Path(pyspark.__file__).parent)
        words = [java, *_JAVA_OPTIONS, "-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{main}"]
        words += ["--properties-file", str(self._seen_as / _PROPERTIES)]
        words += ["--host", place.name, "--port", "0", "--webui-port", "0", *options]
        # What spark-class would find out with a JVM more.
        spark = {"SPARK_HOME": home, "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": place.name}
        log = self._directory / f"{name}.log"
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    place.command(words),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **spark},
                    process_group=0,
                )
            )
        self._end.begin()
        return log.open("rb")


def _first(log: BinaryIO, find: Callable[[bytes], Found | None]) -> Found:
    """What `find` gives for the first line that it takes."""
    deadline_s = time.monotonic() + WAIT_S
    text = b""
    with log:
        while time.monotonic() < deadline_s:
            text += log.readline()
            if text.endswith(b"\n"):
                if (found := find(text)) is not None:
                    return found
                text = b""
            else:
                time.sleep(0.05)
    raise TimeoutError(Path(log.name).read_text()[-2000:])
