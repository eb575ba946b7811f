"""`sqlstream server`: JobManager, TaskManagers, SQL gateway, REST and console in one command."""

from __future__ import annotations

import argparse
import gc
import logging
import select
import shlex
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from sqlstream.client.arguments import (
    add_configuration_arguments,
    add_serving_arguments,
    configuration_of,
    count,
)
from sqlstream.runtime.host.process_end import leave

if TYPE_CHECKING:
    from sqlstream.client.configuration import Configuration
    from sqlstream.client.server.server import Server

logger = logging.getLogger(__name__)

EPILOG = """\
examples:
  sqlstream server
  sqlstream server --port 9000 --data-dir /srv/sqlstream
  sqlstream server -D sql-gateway.endpoint.rest.bind-address=0.0.0.0 -D rest.port=8083
  sqlstream config sql-gateway rest sqlstream

The gateway listens on port 8083 and the JobManager's REST with the console on 8081, of this machine alone; --port puts both on
one. Catalog and jobs are kept in the data directory and are there again after a restart; a job goes on from its newest
checkpoint, or from its beginning without one. Beyond this machine a token is required: the first start makes one, in the file
"token" of the data directory.

SIGTERM and Ctrl-C stop the server within ten seconds, a second one at once. SIGHUP has it read its certificate and the level of
its log again.
"""


LEAVE_TIMEOUT_S = 1.0
"""What a second signal leaves for removing temporary files."""

LOOK_INTERVAL_S = 0.2
"""How soon a stop is noticed that no signal asks for: one by REST, or by the JobManager's end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_serving_arguments(parser, "one port for everything", "catalog, jobs, tokens and logs")
    parser.add_argument(
        "--task-managers", type=count, metavar="N", help="child processes that start at once and stay"
    )
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when the server was stopped, 1 when it broke off, 2 for wrong settings."""
    from sqlstream.client.configuration import settings_of_words
    from sqlstream.client.sessions.target_session import refuse_target

    # In a file it is meant for commands that share the file.
    refuse_target(settings_of_words(arguments.settings), "sqlstream server")
    add_settings_of_words(arguments)
    return serve(lambda: configuration_of(arguments), arguments.task_managers)


def add_settings_of_words(arguments: argparse.Namespace) -> None:
    """--port and --data-dir as settings."""
    if arguments.port is not None:
        ports = ("sql-gateway.endpoint.rest.port", "rest.port")
        arguments.settings += [f"{key}={arguments.port}" for key in ports]
        arguments.settings += [f"{key.removesuffix('port')}bind-port=" for key in ports]
    if arguments.data_dir is not None:
        arguments.settings.append(f"sqlstream.data-dir={arguments.data_dir}")


def serve(read_configuration: Callable[[], Configuration], task_managers: int | None = None) -> int:
    """`read_configuration` is called again for each SIGHUP."""
    from sqlstream.client.server.server import Server

    return serve_as(Server(read_configuration(), task_managers), read_configuration)


def serve_as(server: Server, read_configuration: Callable[[], Configuration]) -> int:
    """Run a server until it is stopped."""
    reload = _heed_signals(server)
    if not server.lead(lambda: _say(server, "another server leads: this one waits to take its place")):
        return 0
    server.start()
    _collect_often()
    _say(server, greeting(server))
    _wait_until_stopped(server, reload, read_configuration)
    server.stop()
    return 1 if server.is_broken else 0


def _say(server: Server, text: str) -> None:
    if server.is_logging_json:
        # What reads the output as JSON would stumble over a line that is none.
        logger.info("%s", "; ".join(" ".join(line.split()) for line in text.splitlines()))
    else:
        print(text, flush=True)


def _collect_often() -> None:
    """Syntax trees have cycles, so that only a full collection frees those that were long in use. The command's intervals are
    those of a short process: between two, the statements of a day would pile up. What is loaded is not searched again."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 3)


def _heed_signals(server: Server) -> threading.Event:
    """Stop at SIGINT and SIGTERM; the event is set at SIGHUP, unless it is ignored (nohup)."""
    reload = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if server.stopped.is_set():
            # Children end with us, and close their engines: the pipe that each of them reads is closed.
            leave(128 + number, LEAVE_TIMEOUT_S)
        server.stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    signal.signal(signal.SIGHUP, lambda number, frame: reload.set())
    return reload


def _reload(server: Server, read_configuration: Callable[[], Configuration]) -> None:
    from sqlstream.errors import SqlStreamError

    try:
        server.reload(read_configuration())
    except SqlStreamError as error:
        logger.error("the settings in force stay: %s", error)


def _wait_until_stopped(
    server: Server, reload: threading.Event, read_configuration: Callable[[], Configuration]
) -> None:
    """Wait for a signal, or for whoever else stops the server.

    The kernel may give a signal to any thread of the process. The handler runs on this one, but only once it is awake: a byte in
    a socket wakes it, whereas one that waits for a lock sleeps on."""
    heard, told = socket.socketpair()
    with heard, told:
        told.setblocking(False)
        before = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        try:
            while not server.stopped.is_set():
                if select.select([heard], [], [], LOOK_INTERVAL_S)[0]:
                    heard.recv(64)
                if reload.is_set():
                    reload.clear()
                    _reload(server, read_configuration)
        finally:
            signal.set_wakeup_fd(before)


def greeting(server: Server) -> str:
    """Where the server is reached, and what to try first."""
    from sqlstream import __version__
    from sqlstream.client.clusters.server_file import data_directory

    lines = [f"sqlstream {__version__} is ready"]
    if server.has_gateway:
        lines.append(f"  SQL gateway    {server.gateway_url}")
    lines += [f"  REST, console  {server.rest_url}", f"  data           {server.data_directory}"]
    if server.join_address:
        # The authority is where the settings of the servers say, not in the data directory of one of them.
        which = ""
        if server.has_leaders:
            which = " with the settings of this server (--config or -D)"
        elif server.data_directory != data_directory(""):
            # That of another directory is the token of another cluster.
            which = f" --data-dir {shlex.quote(server.data_directory)}"
        lines.append(f"  join at        {server.join_address}; for the token: sqlstream cluster token{which}")
    if server.token_path is not None:
        lines.append(f"  token          in {server.token_path}")
    if server.has_gateway:
        lines.append(f"Try: sqlstream shell --connect {server.gateway_url}, then SELECT 1;")
    else:
        lines.append(f"Try: sqlstream gateway --join {server.join_address} --token-file FILE")
    return "\n".join(lines)
