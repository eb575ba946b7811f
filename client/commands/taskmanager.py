"""`sqlstream taskmanager`: slots of this host for a cluster whose JobManager is elsewhere."""

from __future__ import annotations

import argparse
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, configuration_of, count, text_of_file

if TYPE_CHECKING:
    from sqlstream.client.clusters.joined_task_manager import JoinedTaskManager
    from sqlstream.client.configuration import Configuration
    from sqlstream.runtime.net.joining import JoinToken

TOKEN_VARIABLE = "SQLSTREAM_JOIN_TOKEN"

EPILOG = f"""\
examples:
  sqlstream cluster token > join-token        (where the server runs)
  sqlstream taskmanager --join head:6124 --token-file join-token
  sqlstream taskmanager --join head:6124 --slots 4 -D taskmanager.host=worker1

The server runs with execution.target = standalone. The TaskManager asks it for a certificate, which nobody gets without the
token, and all that goes between the hosts is encrypted. It waits for a server that is not there, registers anew with one that has
been started again, and is replaced when it ends. The token is that of --token-file or {TOKEN_VARIABLE}. Ctrl-C and SIGTERM stop
it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_join_arguments(parser, "server")
    parser.add_argument(
        "--slots",
        type=count,
        metavar="N",
        help="how many subtasks run here at once (default: one for each core)",
    )
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when it was stopped, 2 when the cluster refuses this host or a setting is wrong."""
    from sqlstream.client.clusters.joined_task_manager import SLOTS, JoinedTaskManager, Joining
    from sqlstream.runtime.providers.child_output import print_errors

    if arguments.slots is not None:
        arguments.settings.append(f"{SLOTS}={arguments.slots}")
    configuration = configuration_of(arguments)
    for note in _notes(configuration):
        print(note, file=sys.stderr, flush=True)
    files = (arguments.token_file,) if arguments.token_file is not None else ()
    joining = Joining(
        addresses_of_doors(arguments.join),
        token_reader(arguments.token_file),
        _settings(configuration),
        files,
    )
    return _run(JoinedTaskManager(joining, _say, print_errors))


def _run(task_manager: JoinedTaskManager) -> int:
    """Run it until a signal comes, or the cluster refuses it. It runs on a thread: a signal may find this one anywhere, so that
    its handler does no more than to wake it."""
    heard, told = os.pipe()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            task_manager.run()
        except BaseException as error:  # raised again where the command ends
            failed.append(error)
        finally:
            os.write(told, b".")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.write(told, b"."))
    running = threading.Thread(target=run, name="taskmanager", daemon=True)
    running.start()
    while not select.select([heard], [], [], LOOK_S)[0]:
        """A signal that another thread was given is handled here at the next look."""
    task_manager.stop()
    running.join(STOP_TIMEOUT_S)
    if failed:
        raise failed[0]
    return 0


LOOK_S = 0.2
STOP_TIMEOUT_S = 8.0
LOG_LEVEL = "sqlstream.log.level"


_READ = frozenset(
    {LOG_LEVEL, "sqlstream.log.format", "task.cancellation.timeout", "sqlstream.artifacts.cache-size"}
)
"""Settings of a server and of jobs that a TaskManager reads too."""


def _notes(configuration: Configuration) -> Iterator[str]:
    """What is given in vain: keys that have no effect anywhere, and on the command line settings of the server or of jobs. Those
    may be in a file that both have."""
    from sqlstream import config
    from sqlstream.client.configuration import Origin
    from sqlstream.config_option import Scope
    from sqlstream.options.network_options import network_note

    # A host that joins is reached by its address, whatever the target is.
    of_one_machine = f"note: {network_note(configuration.values)}"
    yield from (note for note in configuration.notes if note != of_one_machine)
    for key in configuration.values:
        is_word = configuration.setting(key).origin is Origin.COMMAND_LINE and key in config.OPTIONS
        if is_word and key not in _READ and config.option(key).scope is not Scope.CLUSTER:
            yield f"note: '{key}' has no effect on a TaskManager: give it to the server, or SET it for its jobs"


def _settings(configuration: Configuration) -> dict[str, str]:
    from sqlstream.client.clusters.joined_task_manager import SLOTS, slots_of_cores

    found = configuration.for_jobs
    if not configuration.is_given(SLOTS):
        found[SLOTS] = slots_of_cores()
    # Given also where it is the default: without one a TaskManager says nothing.
    found[LOG_LEVEL] = configuration.get(LOG_LEVEL)
    found["sqlstream.log.format"] = configuration.get("sqlstream.log.format")
    return found


def add_join_arguments(parser: argparse.ArgumentParser, who: str) -> None:
    """`who` opens the door."""
    parser.add_argument(
        "--join",
        metavar="HOST:PORT,…",
        required=True,
        help=f"where the {who}, or each of several, says that hosts join",
    )
    parser.add_argument("--token-file", metavar="FILE", help="the file with the token to join")


def addresses_of_doors(text: str) -> tuple[str, ...]:
    """UserError SS4003 for what is no list of HOST:PORT."""
    return tuple(dict.fromkeys(_address(part.strip()) for part in text.split(",")))


def _address(text: str) -> str:
    """UserError SS4003 for what is no HOST:PORT."""
    from urllib.parse import urlsplit

    from sqlstream.errors import UserError

    try:
        place = urlsplit(f"//{text}")
        if place.hostname and place.port and not place.path:
            return text
    except ValueError:
        pass
    raise UserError(
        "SS4003", f'--join takes HOST:PORT, not "{text}"', hint="the server says it when it starts"
    )


def token_reader(path: str | None) -> Callable[[], JoinToken]:
    """Reads the file each time: its token may have been renewed. UserError SS4080 when there is none."""
    from sqlstream.errors import UserError
    from sqlstream.runtime.net.joining import JoinToken

    if path is None:
        # Not for children, which run functions of users.
        given = os.environ.pop(TOKEN_VARIABLE, None)
        if given is None:
            raise UserError(
                "SS4080",
                "there is no token to join the cluster",
                hint=f"give --token-file FILE or {TOKEN_VARIABLE}; the server's host has it: sqlstream cluster token",
            )
        token = JoinToken.parse(given)
        return lambda: token
    _read_token(path)
    if stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRGRP | stat.S_IROTH):
        print(
            f'others of this machine can read the token in "{path}": chmod 600 {path}',
            file=sys.stderr,
            flush=True,
        )
    return lambda: _read_token(path)


def _read_token(path: str) -> JoinToken:
    from sqlstream.runtime.net.joining import JoinToken

    return JoinToken.parse(text_of_file(path, "the token", "SS4080", 4096))


def _say(text: str) -> None:
    print(text, flush=True)
