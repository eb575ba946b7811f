"""A standalone Spark cluster on this machine, from PySpark's package: a master and two workers, with a secret."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
from spark_harness import wait_until

from runtime.host.java import find_java

SECRET = {"spark.authenticate": "true", "spark.authenticate.secret": "s3cret-of-this-test"}
_CLOSED = {"spark.master.rest.enabled": "false", "spark.master.ui.enabled": "false"}


@contextlib.contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """The master's URL, once both workers have registered."""
    with contextlib.ExitStack() as ends:
        properties = directory / "cluster.properties"
        properties.write_text("".join(f"{k} {v}\n" for k, v in {**SECRET, **_CLOSED}.items()))
        port = _free_port()
        url = f"spark://127.0.0.1:{port}"
        master_log = directory / "master.log"
        master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        ends.enter_context(_process([*master, "--properties-file", str(properties)], master_log))
        assert wait_until(lambda: _accepts(port), 120), master_log.read_text()
        for n in range(2):
            worker = [
                "worker.Worker",
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
            ]
            words = [
                *worker,
                "--work-dir",
                str(directory / f"work{n}"),
                "--properties-file",
                str(properties),
                url,
            ]
            ends.enter_context(_process(words, directory / f"worker{n}.log"))
        is_complete = wait_until(lambda: master_log.read_text().count("Registering worker") == 2, 120)
        assert is_complete, master_log.read_text()
        yield url


@contextlib.contextmanager
def _process(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": find_java(os.environ).home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,
        )
    try:
        yield process
    finally:
        # A worker that is asked to end also ends its executors.
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
