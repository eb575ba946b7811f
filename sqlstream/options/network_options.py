"""The settings of the network between the JobManager and TaskManagers that are not its children: where both listen, under which
names others reach them, and their certificates."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.config_option import ConfigOption, ConfigType, Scope

_B, _I, _S = ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.STRING
_CLUSTER = Scope.CLUSTER

NETWORK_OPTIONS = (
    ConfigOption("jobmanager.rpc.address", _S, "",
                 "With execution.target = spark or standalone, the host name or IP address under which TaskManagers reach the "
                 "JobManager; empty: processes of one machine and user meet on Unix sockets, as they always do with the target "
                 "local, and a standalone cluster has its TaskManagers on this machine (127.0.0.1).",
                 scope=_CLUSTER),
    ConfigOption("jobmanager.rpc.port", _I, "0", "The JobManager's port; 0 takes a free one, or 6123 in a standalone cluster.",
                 minimum=0,
                 maximum=65535, scope=_CLUSTER),
    ConfigOption("sqlstream.jobmanager.gateways.enabled", ConfigType.BOOLEAN, "false",
                 "Whether SQL gateways on other hosts may join and bring jobs, with the token by which TaskManagers join.",
                 scope=Scope.CLUSTER),
    ConfigOption("jobmanager.join.port", _I, "6124",
                 "With execution.target = standalone, the port at which TaskManagers ask to join; 0 takes a free one.",
                 minimum=0, maximum=65535, scope=_CLUSTER),
    ConfigOption("jobmanager.bind-host", _S, "",
                 "The address that the JobManager listens on; empty takes jobmanager.rpc.address.", scope=_CLUSTER),
    ConfigOption("taskmanager.host", _S, "",
                 "The host name or IP address under which others reach each TaskManager; empty takes the address from which it "
                 "reaches the JobManager.", scope=_CLUSTER),
    ConfigOption("taskmanager.bind-host", _S, "",
                 "The address that each TaskManager listens on; empty takes that under which others reach it.", scope=_CLUSTER),
    ConfigOption("security.ssl.internal.enabled", _B, "false",
                 "Whether JobManager and TaskManagers encrypt what they send and ask each other for certificates; required "
                 "unless they listen on loopback or on Unix sockets.", scope=_CLUSTER),
    ConfigOption("security.ssl.internal.certificate-file", _S, "",
                 "The certificate of each process and those between it and the authority, as PEM; the path is that of all hosts.",
                 scope=_CLUSTER),
    ConfigOption("security.ssl.internal.key-file", _S, "",
                 "The private key of the certificate, as PEM without a password; the path is that of all hosts.", scope=_CLUSTER),
    ConfigOption("security.ssl.internal.ca-file", _S, "",
                 "The certificates of the authority that signs those of the cluster and no others, as PEM.", scope=_CLUSTER),
    ConfigOption("security.ssl.internal.server-name", _S, "",
                 "The name in the certificate of every process, for one certificate on all hosts; empty: each certificate names "
                 "its host.", scope=_CLUSTER),
)  # fmt: skip

RPC_PORT = "6123"
"""The port of the JobManager of a standalone cluster, unless another is given: TaskManagers find the next one there."""

NEED_AN_ADDRESS = ("jobmanager.rpc.port", "jobmanager.bind-host", "taskmanager.host", "taskmanager.bind-host")
"""Settings that mean something only beside jobmanager.rpc.address."""


def network_note(config: Mapping[str, str]) -> str:
    """What to tell the user of these settings where `config`, which holds no defaults, keeps jobs on this machine; empty for
    none.

    >>> network_note({"jobmanager.rpc.address": "head", "jobmanager.rpc.port": "0"})
    "'jobmanager.rpc.address' has no effect: processes of one machine meet on Unix sockets ('execution.target' is 'local')"
    >>> network_note({"jobmanager.rpc.address": "head", "execution.target": "spark"})
    ''
    """
    if config.get("execution.target", "local").lower() != "local":
        return ""
    given = [f"'{o.key}'" for o in NETWORK_OPTIONS if config.get(o.key, o.default) != o.default]
    if not given:
        return ""
    have = "has" if len(given) == 1 else "have"
    why = "processes of one machine meet on Unix sockets ('execution.target' is 'local')"
    return f"{', '.join(given)} {have} no effect: {why}"
