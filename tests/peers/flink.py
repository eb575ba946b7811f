"""Apache Flink as an engine of the comparison: its bundled standalone cluster on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import time
import urllib.request
from pathlib import Path

from peers.engine import DRIVERS, Child, Driver, Run
from peers.install import FLINK_VERSION, PeerError, find_java, flink_home, install_flink
from peers.queries import WATERMARK_LAG_MS, Query

_LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 180

TASK_MANAGER_MEMORY = "4g"
SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.local-time-zone": "UTC",
    "execution.checkpointing.interval": "10 s",
    "parallelism.default": "2",
}


def bid_table(bids: Path) -> str:
    """The table over the files, in Flink's dialect, which sqlstream shares."""
    return (
        "CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` BIGINT,"
        " extra STRING, ts AS TO_TIMESTAMP_LTZ(`dateTime`, 3),"
        f" WATERMARK FOR ts AS ts - INTERVAL '{WATERMARK_LAG_MS // 1000}' SECOND)"
        f" WITH ('connector' = 'filesystem', 'path' = '{bids}', 'format' = 'json')"
    )


def sink_table(query: Query) -> str:
    """The table that drops the answer."""
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in query.sink)
    return f"CREATE TABLE answer ({columns}) WITH ('connector' = 'blackhole')"


class Flink:
    """A JobManager, a TaskManager with two slots, and a client JVM that plans and submits: all three are measured."""

    name = "flink"
    version = FLINK_VERSION

    def __init__(self, logs: Path, folder: Path) -> None:
        java, self.java_version = find_java()
        python = install_flink(folder)
        self._home, self._logs = flink_home(python), logs
        self._work = folder / "flink-run"
        shutil.rmtree(self._work, ignore_errors=True)
        (self._work / "conf").mkdir(parents=True)
        self._children: list[Child] = []
        self._driver: Driver | None = None
        self.setup = (
            f"standalone cluster, one TaskManager with two slots and {TASK_MANAGER_MEMORY} of memory, Java {self.java_version};"
            " object reuse, mini-batch, two-phase aggregation, checkpoints every 10 s; reads the directory, writes to"
            " `blackhole`"
        )
        try:
            self._start(java, python)
        except BaseException:
            self.stop()
            raise

    def run(self, query: Query, bids: Path, timeout_s: float) -> Run:
        used = self._cpu_seconds()
        answer = self._ask(
            [bid_table(bids), sink_table(query)], f"INSERT INTO answer {query.flink}", timeout_s
        )
        return Run(float(str(answer["wall_s"])), self._cpu_seconds() - used)

    def totals(self, query: Query, bids: Path, timeout_s: float) -> list[int]:
        answer = self._ask([bid_table(bids)], query.with_totals(query.flink), timeout_s)
        row = answer["row"]
        assert isinstance(row, list)
        return [int(value) for value in row]

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.stop()
        for child in reversed(self._children):
            child.stop()
        self._children.clear()

    # -- the cluster -------------------------------------------------------------------------------

    def _start(self, java: str, python: Path) -> None:
        rest_port, rpc_port = _free_ports(2)
        options = self._write_configuration(rest_port, rpc_port)
        environment = {
            **os.environ,
            "JAVA_HOME": str(Path(java).resolve().parent.parent),
            "FLINK_CONF_DIR": str(self._work / "conf"),
            "FLINK_LOG_DIR": str(self._logs),
            "FLINK_PID_DIR": str(self._work),
        }
        for script in ("jobmanager.sh", "taskmanager.sh"):
            command = ["bash", str(self._home / "bin" / script), "start-foreground"]
            self._children.append(
                Child(command, environment, self._logs / f"flink-{script.removesuffix('.sh')}.log")
            )
        self._await_slots(rest_port)
        self._driver = Driver(
            self.name,
            [str(python), str(DRIVERS / "run_flink.py"), json.dumps(self._client(java, options, rest_port))],
            environment,
            self._logs / "flink-client.log",
        )

    def _write_configuration(self, rest_port: int, rpc_port: int) -> str:
        """Flink's own, with what this cluster has otherwise; the JVM options that Flink wants, which are given back."""
        shipped = self._home / "conf"
        for path in shipped.glob("log4j*"):
            shutil.copy(path, self._work / "conf")
        found = re.search(
            r"^\s+all: (--add.*)$", (shipped / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE
        )
        options = found.group(1) if found else ""
        configuration = {
            "env.java.opts.all": options,
            "jobmanager.rpc.address": _LOOPBACK,
            "jobmanager.rpc.port": str(rpc_port),
            "jobmanager.bind-host": _LOOPBACK,
            "jobmanager.memory.process.size": "1600m",
            "taskmanager.host": _LOOPBACK,
            "taskmanager.bind-host": _LOOPBACK,
            "taskmanager.numberOfTaskSlots": "2",
            "taskmanager.memory.process.size": TASK_MANAGER_MEMORY,
            # State is on the heap: memory set aside for RocksDB would lie idle.
            "taskmanager.memory.managed.fraction": "0.1",
            "rest.address": _LOOPBACK,
            "rest.bind-address": _LOOPBACK,
            "rest.port": str(rest_port),
            "state.backend.type": "hashmap",
            "execution.checkpointing.dir": (self._work / "checkpoints").as_uri(),
            "io.tmp.dirs": str(self._work / "tmp"),
        }
        (self._work / "tmp").mkdir()
        lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in configuration.items())
        (self._work / "conf" / "config.yaml").write_text(lines, encoding="utf-8")
        return options

    def _client(self, java: str, options: str, rest_port: int) -> dict[str, object]:
        """What the driver is told."""
        jars = [*sorted((self._home / "lib").glob("*.jar")), *(self._home / "opt").glob("flink-python*.jar")]
        logging = self._home / "conf" / "log4j-cli.properties"
        return {
            "java": [
                *(java, "-XX:+IgnoreUnrecognizedVMOptions", "-Xmx1g", *options.split()),
                f"-Dlog4j.configurationFile={logging.as_uri()}",
                f"-Dlog.file={self._logs / 'flink-client-jvm.log'}",
                *("-cp", ":".join(map(str, jars))),
            ],
            "connection": str(self._work / "client-port"),
            "configuration": {
                "execution.target": "remote",
                "rest.address": _LOOPBACK,
                "rest.port": str(rest_port),
            },
            "settings": SETTINGS,
        }

    def _await_slots(self, rest_port: int) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < deadline:
            for child in self._children:
                if child.process.poll() is not None:
                    raise PeerError(f"a process of Flink's cluster has ended: {child.log_end()}")
            with (
                contextlib.suppress(OSError),
                opener.open(f"http://{_LOOPBACK}:{rest_port}/overview", timeout=5) as reply,
            ):
                if json.load(reply)["slots-available"] == 2:
                    return
            time.sleep(0.2)
        raise PeerError(
            f"Flink's cluster was not up within {_START_TIMEOUT_S} s; its logs are in {self._logs}"
        )

    # -- jobs --------------------------------------------------------------------------------------

    def _ask(self, tables: list[str], job: str, timeout_s: float) -> dict[str, object]:
        assert self._driver is not None
        request = {
            "setup": tables,
            "job": job,
            "is_query": job.startswith("SELECT"),
            "timeout_s": timeout_s,
        }
        return self._driver.ask(request, timeout_s + _START_TIMEOUT_S)

    def _cpu_seconds(self) -> float:
        assert self._driver is not None
        return sum(child.cpu_seconds() for child in (*self._children, self._driver.child))


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
