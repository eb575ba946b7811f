"""The server's settings, read once from the configuration and checked together."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
from collections.abc import Mapping

from sqlstream.client.clusters.server_file import data_directory
from sqlstream.client.configuration import Configuration
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.server.directories.from_settings import names_users
from sqlstream.client.server.leaders.stores import Leaders, leaders
from sqlstream.client.server.place_formats import FORMATS_FILE
from sqlstream.client.server.places import PlaceLimits
from sqlstream.errors import UserError
from sqlstream.options.reporters import OtlpReporter, otlp_reporters

_PORT_MAX = 65535
_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?")


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where one listener listens: the first free one of `ports`; 0 is any. `name` is the host that clients write, and
    `port_words` what a command that starts the listener takes for another port."""

    name: str
    bind_address: str
    ports: tuple[int, ...]
    port_words: str = "--port PORT"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.bind_address)


@dataclasses.dataclass(frozen=True)
class TlsFiles:
    """Clients may show certificates of `client_authorities`, if there are any; those that `needs_client` must."""

    certificate: str
    key: str
    key_password: str
    client_authorities: str = ""
    needs_client: bool = False


@dataclasses.dataclass(frozen=True)
class ServerConfig:
    """What `sqlstream server` starts with. `rest` is None when both interfaces share the gateway's port, and where
    there is no gateway, whose place it takes."""

    gateway: Endpoint
    rest: Endpoint | None
    has_gateway: bool
    limits: GatewayOptions
    places: PlaceLimits
    bodies_bytes_max: int
    requests_per_user_max: int
    plan_bytes_max: int
    user_plans_bytes_max: int
    job_slots_max: int
    user_jobs_max: int
    user_sessions_max: int
    tls: TlsFiles | None
    is_token_required: bool
    file_roots: tuple[str, ...]
    has_database_servers: bool
    has_private_addresses: bool
    has_python_functions: bool
    data_directory: str
    log_level: str
    log_format: str
    log_file_bytes_max: int
    log_files_max: int
    leaders: Leaders | None
    reporters: tuple[OtlpReporter, ...]

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where the server listens, the gateway's first."""
        return (self.gateway,) if self.rest is None else (self.gateway, self.rest)


def server_config(configuration: Configuration) -> ServerConfig:
    """UserError SS4002 for settings that do not go together, or files that are not there."""
    gateway = Endpoint(
        configuration.get("sql-gateway.endpoint.rest.address"),
        configuration.get("sql-gateway.endpoint.rest.bind-address"),
        ports_of(
            configuration.get("sql-gateway.endpoint.rest.port"),
            configuration.get("sql-gateway.endpoint.rest.bind-port"),
        ),
    )
    rest = Endpoint(
        configuration.get("rest.address"),
        configuration.get("rest.bind-address"),
        ports_of(configuration.get("rest.port"), configuration.get("rest.bind-port")),
    )
    has_gateway = configuration.get("sqlstream.server.gateway.enabled")
    if not has_gateway:
        gateway = rest
    shares = rest.ports == gateway.ports
    if shares and not rest.is_loopback and rest.bind_address != gateway.bind_address:
        raise UserError(
            "SS4002",
            f'option "rest.bind-address" is "{rest.bind_address}", but gateway and REST share a port, which listens on'
            f' "{gateway.bind_address}"',
            hint="give sql-gateway.endpoint.rest.bind-address the same address, or rest.port a port of its own",
        )
    is_open = not (gateway.is_loopback and (shares or rest.is_loopback))
    is_token_required = is_open or configuration.get("sqlstream.server.authentication") == "ALWAYS"
    is_token_required = is_token_required or names_users(configuration)
    return ServerConfig(
        gateway=gateway,
        rest=None if shares else rest,
        has_gateway=has_gateway,
        limits=dataclasses.replace(gateway_options(configuration), has_users=is_token_required),
        places=place_limits(configuration),
        bodies_bytes_max=configuration.get("sqlstream.server.bodies.max-size"),
        requests_per_user_max=configuration.get("sqlstream.server.requests.per-user.max-num"),
        plan_bytes_max=configuration.get("sqlstream.server.plan.max-size"),
        user_plans_bytes_max=configuration.get("sqlstream.server.plans.per-user.max-size"),
        job_slots_max=configuration.get("sqlstream.server.slots.per-job.max-num"),
        user_jobs_max=configuration.get("sqlstream.server.jobs.per-user.max-num"),
        user_sessions_max=configuration.get("sqlstream.gateway.sessions.per-user.max-num"),
        tls=tls_files(configuration),
        is_token_required=is_token_required,
        file_roots=file_roots(configuration.get("sqlstream.server.file-roots")),
        has_database_servers=configuration.get("sqlstream.server.database-servers.enabled"),
        has_private_addresses=configuration.get("sqlstream.server.private-addresses.enabled"),
        has_python_functions=configuration.get("sqlstream.server.python-functions.enabled"),
        data_directory=data_directory(configuration.get("sqlstream.data-dir")),
        log_level=configuration.get("sqlstream.log.level"),
        log_format=configuration.get("sqlstream.log.format"),
        log_file_bytes_max=configuration.get("sqlstream.log.file.max-size"),
        log_files_max=configuration.get("sqlstream.log.file.max-num"),
        leaders=leaders(configuration),
        reporters=reporters(configuration),
    )


def reporters(configuration: Configuration) -> tuple[OtlpReporter, ...]:
    """UserError SS6121 for one that cannot be used."""
    names = {
        "metrics": configuration.get("metrics.reporters"),
        "traces": configuration.get("traces.reporters"),
    }
    return otlp_reporters(configuration.values, names)


def ports_of(port: int, bind_ports: str) -> tuple[int, ...]:
    """The ports to try: those of the option `bind-port` when it is set. UserError SS4002 when it is wrong.

    >>> ports_of(8081, ""), ports_of(8081, "9000-9002, 80")
    ((8081,), (9000, 9001, 9002, 80))
    """
    if not bind_ports:
        return (port,)
    ports: list[int] = []
    for part in bind_ports.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
        if first > last or last > _PORT_MAX:
            raise UserError(
                "SS4002",
                f'the option "bind-port" of an endpoint takes ports, not "{bind_ports}"',
                hint="write a port, a range such as 50100-50200, or several with commas between them",
            )
        ports += range(first, last + 1)
    return tuple(ports)


def gateway_options(configuration: Configuration) -> GatewayOptions:
    return GatewayOptions(
        sessions_max=configuration.get("sql-gateway.session.max-num"),
        idle_timeout_ms=configuration.get("sql-gateway.session.idle-timeout"),
        check_interval_ms=configuration.get("sql-gateway.session.check-interval"),
        worker_threads_max=configuration.get("sql-gateway.worker.threads.max"),
        operations_max=configuration.get("sqlstream.gateway.operations.max-num"),
        operations_bytes_max=configuration.get("sqlstream.gateway.operations.max-size"),
        user_bytes_max=configuration.get("sqlstream.gateway.memory.per-user.max-size"),
        statement_bytes_max=configuration.get("sqlstream.gateway.statement.max-length"),
        properties_bytes_max=configuration.get("sqlstream.gateway.session.properties.max-size"),
        body_bytes_max=configuration.get("rest.server.max-content-length"),
        planning_per_user_max=configuration.get("sqlstream.gateway.planning.per-user.max-num"),
        planning_cpu_max_ms=configuration.get("sqlstream.gateway.planning.cpu-time.max"),
    )


def place_limits(configuration: Configuration) -> PlaceLimits:
    return PlaceLimits(
        connections_max=configuration.get("sqlstream.server.connections.max-num"),
        per_address_max=configuration.get("sqlstream.server.connections.per-address.max-num"),
        reserved=configuration.get("sqlstream.server.connections.reserved"),
        request_timeout_s=configuration.get("sqlstream.server.connections.request-timeout") / 1000,
    )


def tls_files(configuration: Configuration) -> TlsFiles | None:
    """The files of `security.ssl.rest.*`, or None when TLS is off."""
    if not configuration.get("security.ssl.rest.enabled"):
        if configuration.get("security.ssl.rest.authentication-enabled") or configuration.get(
            "sqlstream.server.certificates.roles"
        ):
            raise UserError(
                "SS4002",
                "certificates of clients are asked for, but TLS is off",
                hint="set security.ssl.rest.enabled, and its certificate-file and key-file",
            )
        return None
    found = TlsFiles(
        configuration.get("security.ssl.rest.certificate-file"),
        configuration.get("security.ssl.rest.key-file"),
        configuration.get("security.ssl.rest.key-password"),
        configuration.get("security.ssl.rest.ca-file"),
        configuration.get("security.ssl.rest.authentication-enabled"),
    )
    files = [("certificate-file", found.certificate), ("key-file", found.key)]
    if found.needs_client or found.client_authorities:
        files.append(("ca-file", found.client_authorities))
    for option, path in files:
        key = f"security.ssl.rest.{option}"
        if not path:
            raise UserError(
                "SS4002",
                f'option "{key}" is not set, but TLS is on',
                hint=f"give a PEM file with -D {key}=FILE",
            )
        if not os.path.isfile(path):
            raise UserError(
                "SS4002", f'option "{key}" names "{path}", which is no file', hint="give a PEM file"
            )
    return found


LED = "led"
"""Below the data directory of one of several servers: what only the leader changes, as the store has it."""


def shared_directory(configuration: Configuration, given: str | None = None) -> str:
    """Where tokens and the cluster's authority are: the data directory, `given` or that of the settings, unless servers share
    a directory. UserError SS6147 for a data directory of one of several servers without their settings, or what they share."""
    found = leaders(configuration)
    directory = data_directory(given or configuration.get("sqlstream.data-dir"))
    if found is not None:
        return found.directory or directory
    is_used = os.path.exists(os.path.join(directory, FORMATS_FILE))
    if is_used and any(os.path.isdir(os.path.join(directory, name)) for name in (LED, "records", "large")):
        raise UserError(
            "SS6147",
            f'"{directory}" is of a server with high availability: its jobs and catalog are in the store of its leaders',
            hint="give the settings of the server, high-availability.* among them, with --config or -D",
        )
    return directory


def file_roots(text: str) -> tuple[str, ...]:
    """The directories of `sqlstream.server.file-roots` as real paths; without any, all directories. UserError SS4002 for one that
    is not there."""
    if not text.strip():
        return ("/",)
    roots = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        if not os.path.isdir(part):
            raise UserError(
                "SS4002",
                f'option "sqlstream.server.file-roots" names "{part}", which is no directory',
                hint="make the directory, or correct the path",
            )
        roots.append(os.path.realpath(part))
    return tuple(dict.fromkeys(roots))


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches what listens on the address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


FIRST_TASK_MANAGERS_MAX = 4

SLOTS = "taskmanager.numberOfTaskSlots"
SLOTS_MAX = "slotmanager.number-of-slots.max"
SLOTS_MIN = "slotmanager.number-of-slots.min"


@dataclasses.dataclass(frozen=True)
class ClusterSize:
    """`task_managers` start at once and stay; None: as many as the settings say. `settings` go before those of the cluster."""

    task_managers: int | None
    settings: Mapping[str, str]


def cluster_size(configuration: Configuration, cores: int, task_managers: int | None) -> ClusterSize:
    """One TaskManager per core shares all slots that the cluster may have, and the first of them start with the server.

    A process per slot would cost each of many small jobs 120 MB, and several times the processor time; a single process would
    run all tasks under one interpreter lock. `task_managers` is the number that was asked for on the command line."""
    target = configuration.get("execution.target")
    if target == "standalone":
        # Those of this host join it as others do.
        return ClusterSize(None, {})
    if target == "spark":
        # An executor has a processor for one task, and costs nothing before a job needs it.
        return ClusterSize(task_managers, {})
    settings = {}
    if not configuration.is_given(SLOTS):
        processes = max(cores, task_managers or 1)
        settings[SLOTS] = str(min(64, max(1, configuration.get(SLOTS_MAX) // processes)))
    if task_managers is None and not configuration.is_given(SLOTS_MIN):
        slots = int(settings.get(SLOTS) or configuration.get(SLOTS))
        task_managers = min(cores, FIRST_TASK_MANAGERS_MAX, max(1, configuration.get(SLOTS_MAX) // slots))
    return ClusterSize(task_managers, settings)
