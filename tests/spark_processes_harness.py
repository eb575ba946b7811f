"""A standalone Spark cluster of PySpark's own files on loopback: a master and workers of one core, each a process."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

import psutil
import pyspark

from runtime.host.java import find_java

WAIT_S = 240.0
"""For what a machine does in seconds when nothing else runs on it."""

_ADDRESS = re.compile(rb"Starting Spark master at (spark://\S+)")
Found = TypeVar("Found")

_REGISTERED = b"Successfully registered with master"
_JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "java.lang")),
)


class StandaloneCluster:
    """Master and workers from `with` to its end, when all of them are killed. `settings` are those of an application."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._count = workers
        self._secret = secrets.token_hex(16)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        properties = self._directory / "cluster.properties"
        properties.touch(0o600)
        properties.write_text(
            "spark.master.rest.enabled false\nspark.authenticate true\n"
            f"spark.authenticate.secret {self._secret}\nspark.network.crypto.enabled true\n"
        )
        try:
            log = self._start(
                "master.Master", "master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            )
            self.master = _first(log, _ADDRESS.search)[1].decode()
            for number in range(self._count):
                self.start_worker(f"worker-{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored: object) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.master": self.master,
            "spark.authenticate": "true",
            "spark.authenticate.secret": self._secret,
            "spark.network.crypto.enabled": "true",
        }

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return [p for p in self.processes[1:] if p.poll() is None]

    def start_worker(self, name: str) -> None:
        work = self._directory / name
        options = (
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
        )
        log = self._start("worker.Worker", name, *options, "--work-dir", str(work), self.master)
        _first(log, lambda line: _REGISTERED in line or None)

    def _start(self, main: str, name: str, *options: str) -> BinaryIO:
        java = os.path.join(find_java(os.environ).home, "bin", "java")
        home = str(Path(pyspark.__file__).parent)
        properties = ("--properties-file", str(self._directory / "cluster.properties"))
        log = open(self._directory / f"{name}.log", "wb+")  # noqa: SIM115 (read until its line comes)
        self.processes.append(
            subprocess.Popen(
                [
                    java,
                    *_JAVA_OPTIONS,
                    "-cp",
                    f"{home}/jars/*",
                    f"org.apache.spark.deploy.{main}",
                    *properties,
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # What spark-class would find out with a JVM more.
                env={
                    **os.environ,
                    "SPARK_HOME": home,
                    "SPARK_SCALA_VERSION": "2.13",
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                process_group=0,
            )
        )
        return open(log.name, "rb")


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


def wait_until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def descendants(process_id: int, *words: str) -> list[psutil.Process]:
    """The processes below that one whose command line has all of the words."""
    found = []
    for process in psutil.Process(process_id).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            line = " ".join(process.cmdline())
            if line and all(word in line for word in words):
                found.append(process)
    return found


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
