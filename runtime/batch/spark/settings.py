"""The settings that Spark is started with: ours, and over them those of the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from sqlstream.errors import UserError
from sqlstream.runtime.batch.spark.connect.address import API_MODE, REMOTE, connect_address, is_connect
from sqlstream.secrets import masked
from sqlstream.spark import MASTER, SECRET, SPARK_SQL_SETTINGS, is_launch_key, is_of_meaning, is_spark_key

LOOPBACK = "127.0.0.1"

RESULTS_PORT = "spark.sqlstream.results.port"
"""The port of this process at which executors of a cluster deliver the rows of a query; by default any free one."""

CLASS_ARCHIVE = "spark.sqlstream.class-archive"
"""What becomes of the archive of Spark's classes (sqlstream.runtime.batch.spark.class_archive): one of CLASS_ARCHIVES."""

CLASS_ARCHIVES = ("read", "write", "none")

ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""What a cluster of several hosts needs: the secret of the TaskManagers goes through Spark's connections."""

_PORT_MAX = 65535

_GIB = 1 << 30
_MEMORY_SHARE = 4
"""Spark takes up to this fraction of the machine's memory, which it shares with our readers and with other programs."""

_MEMORY_BYTES_MAX = 8 * _GIB

_PARTITIONS_PER_CORE = 4
"""Small enough for the overhead of tasks, large enough that a shuffle spills little; AQE merges what is too small."""

_LATE_OPTIMISING = " ".join(
    f"-XX:Tier4{threshold}={30 * default}"
    for threshold, default in (
        ("InvocationThreshold", 5_000),
        ("MinInvocationThreshold", 600),
        ("CompileThreshold", 15_000),
        ("BackEdgeThreshold", 40_000),
    )
)
"""Java's optimising compiler takes code that has run 30 times as often as by default. Of a short query it would compile what is
not needed again: a first one over 100,000 rows takes 13.8 s of CPU time instead of 17.9, and a long one reaches it all the
same."""

_METASPACE = "-XX:MetaspaceSize=256m"
"""Below it Java collects no garbage for the sake of classes, which Spark has 100 MB of and never unloads."""

_MASTERS = re.compile(r"local(\[.*\])?|local-cluster\[.*\]|spark://.+|yarn|k8s://.+")


def spark_keys(config: Mapping[str, str]) -> dict[str, str]:
    """The settings of Spark among those of a statement. UserError SS4052 for those that our SQL relies on, and SS4053 for a
    master that cannot be used."""
    given = {key: value for key, value in config.items() if is_spark_key(key)}
    for key, needed in SPARK_SQL_SETTINGS.items():
        if given.get(key, needed).lower() != needed.lower():
            raise UserError(
                "SS4052",
                f'option "{key}" cannot be "{given[key]}": the SQL that is generated for Spark needs "{needed}"',
                hint=f"RESET '{key}'",
            )
    for key in given:
        if is_of_meaning(key):
            raise UserError(
                "SS4052",
                f'option "{key}" cannot be set: it could change what the SQL that is generated for Spark means',
                hint=f"RESET '{key}'",
            )
    _check_master(given)
    _check_results_port(given)
    _check_class_archive(given)
    return given


def launch_keys(given: Mapping[str, str]) -> dict[str, str]:
    """Those that are in force from Spark's start. The others can differ from statement to statement."""
    return {key: value for key, value in given.items() if is_launch_key(key)}


def launch_settings(
    given: Mapping[str, str], directory: str, sockets: str, cores: int, memory_bytes: int
) -> dict[str, str]:
    """All settings of a Spark with these launch keys, temporary files below `directory` and Unix sockets in `sockets`, on a
    machine of that size."""
    master = given.get(MASTER, f"local[{cores}]")
    settings = {
        MASTER: master,
        "spark.app.name": "sqlstream",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": f"file:{directory}/warehouse",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": f"file:{directory}/pools.xml",
        "spark.driver.extraJavaOptions": _java_options(directory),
    }
    if is_of_this_machine(master):
        settings |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.driver.memory": f"{_driver_memory_mib(memory_bytes)}m",
            "spark.local.dir": f"{directory}/local",
            # Spark and the workers meet there, where no other user can enter.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": sockets,
            "spark.sql.shuffle.partitions": str(cores * _PARTITIONS_PER_CORE),
        }
    # Within one JVM Spark makes the secret; elsewhere the owner of the cluster gives it, who has no other use for it.
    if master.startswith("local[") or SECRET in given:
        settings["spark.authenticate"] = "true"
    key = "spark.driver.extraJavaOptions"
    # The user's options stand behind ours, so that they win where both say something.
    java_options = " ".join((settings[key], given.get(key, ""))).rstrip()
    return {**settings, **given, **SPARK_SQL_SETTINGS, key: java_options}


def is_of_this_machine(master: str) -> bool:
    """Whether every process of this Spark runs on this machine."""
    if master.startswith("spark://"):
        return all(host in (LOOPBACK, "localhost") for host, _ in standalone_masters(master))
    return master.startswith("local")


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of `spark://host:port,host:port`. UserError SS4053 for another form."""
    found = []
    for place in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port:
            raise _wrong_master(master)
        found.append((host, port))
    return found


def results_address(settings: Mapping[str, str]) -> tuple[tuple[str, int], str]:
    """Where this process listens for rows of a cluster, and the host by which executors reach it. These are those of Spark's
    driver, which differ behind a translation of addresses."""
    host = settings.get("spark.driver.host", "")
    return (settings.get("spark.driver.bindAddress", host), int(settings.get(RESULTS_PORT, "0"))), host


def _check_results_port(given: Mapping[str, str]) -> None:
    port = given.get(RESULTS_PORT, "0")
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= _PORT_MAX):
        raise UserError(
            "SS4002",
            f'option "{RESULTS_PORT}" cannot be "{port}"',
            hint=f"give a port from 1 to {_PORT_MAX}, or 0 for any free one",
        )


def _check_class_archive(given: Mapping[str, str]) -> None:
    if given.get(CLASS_ARCHIVE, "read") not in CLASS_ARCHIVES:
        raise UserError(
            "SS4002",
            f'option "{CLASS_ARCHIVE}" cannot be "{given[CLASS_ARCHIVE]}"',
            hint=f"give one of {', '.join(CLASS_ARCHIVES)}",
        )


def _check_master(given: Mapping[str, str]) -> None:
    mode = "connect" if is_connect(given) else "classic"
    if given.get(API_MODE, mode) != mode:
        raise UserError(
            "SS4053",
            f'option "{API_MODE}" cannot be "{given[API_MODE]}": whether Spark Connect is used follows from the address',
            hint=f"RESET '{API_MODE}', and SET '{REMOTE}' = 'sc://HOST:PORT' to use a Spark Connect server",
        )
    if connect_address(given) is not None:
        return
    master = given.get(MASTER, "local[*]")
    if not _MASTERS.fullmatch(master):
        raise _wrong_master(master)
    if master.startswith("spark://"):
        standalone_masters(master)
    if given.get("spark.submit.deployMode", "client") != "client":
        raise UserError(
            "SS4053",
            'Spark\'s deploy mode must be "client": its driver belongs to this process',
            hint="RESET 'spark.submit.deployMode'",
        )


def _wrong_master(master: str) -> UserError:
    return UserError(
        "SS4053",
        f'"{master}" is no master of Spark',
        hint=f"SET '{MASTER}' = 'local[*]', 'spark://HOST:PORT', 'yarn' or 'k8s://…', or '{REMOTE}' = 'sc://HOST:PORT'",
    )


def _driver_memory_mib(memory_bytes: int) -> int:
    return max(_GIB, min(memory_bytes // _MEMORY_SHARE, _MEMORY_BYTES_MAX)) >> 20


def _java_options(directory: str) -> str:
    return (
        f"-Dlog4j2.configurationFile=file:{directory}/log4j2.properties"
        f" -Djava.io.tmpdir={directory}/tmp -XX:-UsePerfData {_METASPACE} {_LATE_OPTIMISING}"
    )


def shown_settings(settings: Mapping[str, str]) -> str:
    """Settings for a log or a message, secrets masked."""
    return ", ".join(f"{key}={masked(key, value)}" for key, value in sorted(settings.items()))


def properties_text(settings: Mapping[str, str]) -> str:
    """A Java properties file.

    >>> properties_text({"spark.app.name": "a:b = c"})
    'spark.app.name=a\\\\:b\\\\ \\\\=\\\\ c\\n'
    """
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    plain = (
        re.sub(r"([\\:=#! ])", r"\\\1", text).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )
    return "".join(c if c.isascii() else "".join(f"\\u{u:04x}" for u in _utf16(c)) for c in plain)


def _utf16(character: str) -> list[int]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[i : i + 2], "big") for i in range(0, len(encoded), 2)]
