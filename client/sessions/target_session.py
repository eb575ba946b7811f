"""A session of this process whose jobs run where `execution.target` says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream import config as options
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.config_option import Scope
from sqlstream.errors import ExternalError, UserError

if TYPE_CHECKING:
    from sqlstream.client.clusters.remote_cluster import RemoteClusterClient
    from sqlstream.runtime.net.results import PrintLines


@contextlib.contextmanager
def local_session(
    config: Mapping[str, str] | None = None,
    task_managers: int | None = None,
    print_lines: PrintLines | None = None,
) -> Iterator[Session]:
    """A session whose cluster ends with it; the arguments are those of LocalClusterClient. UserError SS4001 or SS4002 for a
    wrong setting."""
    cluster = LocalClusterClient(config, task_managers, print_lines)
    try:
        yield Session(cluster, config)
    finally:
        cluster.close()


TARGET = "execution.target"
DATA_DIRECTORY = "sqlstream.data-dir"


def server_of(config: Mapping[str, str]) -> str:
    """The data directory of the server that jobs go to; empty for a cluster of one's own. UserError SS4002 for a wrong target."""
    if options.get(config, TARGET) != "remote":
        return ""
    from sqlstream.client.clusters.server_file import data_directory

    return data_directory(config.get(DATA_DIRECTORY, ""))


def refuse_target(config: Mapping[str, str], command: str) -> None:
    """UserError SS4003 when a command that runs its own cluster is given another target, SS4002 for a wrong one."""
    target = options.get(config, TARGET)
    if target == "remote":
        raise UserError(
            "SS4003",
            f'{command} runs jobs in a cluster of its own, not on the target "{target}"',
            hint=f"leave {TARGET} out",
        )


@contextlib.contextmanager
def target_session(
    config: Mapping[str, str] | None = None,
    task_managers: int | None = None,
    print_lines: PrintLines | None = None,
) -> Iterator[Session]:
    """A session that plans here, on a cluster of its own that ends with it, of this machine or in a Spark cluster, or on the
    running server of this machine and user, found by `sqlstream.data-dir`. The arguments are those of LocalClusterClient.

    UserError SS4001 or SS4002 for a wrong setting, SS4003 for one that a remote cluster cannot obey; for a server that does not
    answer those of `remote_cluster`."""
    given = dict(config or {})
    server = server_of(given)
    given.pop(DATA_DIRECTORY, None)
    if not server:
        with local_session(given, task_managers, print_lines) as session:
            yield session
        return
    _check_of_session(given, task_managers)
    with contextlib.closing(remote_cluster(server, print_lines)) as cluster:
        yield Session(cluster, given)


def _check_of_session(config: Mapping[str, str], task_managers: int | None) -> None:
    """Refuse what a cluster starts with: the server has started its own."""
    wrong = "--task-managers" if task_managers is not None else ""
    for key in config:
        if key != TARGET and options.option(key).scope is Scope.CLUSTER:
            wrong = wrong or f'option "{key}"'
    if wrong:
        raise UserError(
            "SS4003",
            f"{wrong} is for a cluster that the command starts, but jobs go to a running server",
            hint="leave it out, or give it to sqlstream server",
        )


def remote_cluster(path: str, print_lines: PrintLines | None = None) -> RemoteClusterClient:
    """A client of the server that runs in a data directory. ExternalError SS6037 when there is none, and what RemoteClusterClient
    raises."""
    import msgspec

    from sqlstream.client.clusters.remote_cluster import RemoteClusterClient
    from sqlstream.client.clusters.server_file import read_server_file

    hint = f"start one (sqlstream server), or name its data directory: -D {DATA_DIRECTORY}=DIRECTORY"
    try:
        server = read_server_file(path)
    except FileNotFoundError as error:
        raise ExternalError("SS6037", f'no server runs in "{path}"', hint=hint) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ExternalError(
            "SS6037",
            f'could not read which server runs in "{path}": {reason}',
            hint="only the server's own user submits plans to it; others use: sqlstream submit",
        ) from error
    except msgspec.MsgspecError as error:
        raise ExternalError(
            "SS6037", f'could not read which server runs in "{path}": {error}', hint="restart the server"
        ) from error
    if not server.control_address:
        raise ExternalError(
            "SS6037",
            f'the server in "{path}" takes no plans: it is of an earlier release',
            hint="restart it with this release",
        )
    return RemoteClusterClient(server.control_address, server.control_secret, print_lines)
