"""Which server a command talks to: --server and --token-file, the environment, or the server that runs on this machine; and how
its answers are printed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.types import BIGINT, STRING, LogicalType

if TYPE_CHECKING:
    from sqlstream.client.connection.address import Address
    from sqlstream.client.connection.cluster_rest import ClusterRest

Answer = TypeVar("Answer")

URL_VARIABLE = "SQLSTREAM_URL"
TOKEN_VARIABLE = "SQLSTREAM_TOKEN"
SERVER_FILE = "server.json"
TOKEN_FILE = "token"
DEFAULT_URL = "http://localhost:8083"

SERVER_EPILOG = """
The server is that of --server, else of $SQLSTREAM_URL, else the one that runs on this machine. A token is taken from
--token-file, else from $SQLSTREAM_TOKEN, else from the data directory of the server on this machine.
"""


def add_job_argument(parser: argparse.ArgumentParser, *, is_running: bool = False) -> None:
    """The id of a job, of one that runs with `is_running`: these complete it."""
    from sqlstream.client.commands.completion import job_ids, running_job_ids

    given = parser.add_argument("id", metavar="ID", help="the job's id, or the first characters of it")
    given.completer = running_job_ids if is_running else job_ids  # type: ignore[attr-defined]


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """--server, --token-file and --json."""
    parser.add_argument("--server", metavar="URL", help=f"the server, such as {DEFAULT_URL}")
    parser.add_argument("--token-file", metavar="FILE", help="a file whose first line is the token")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def add_arguments_of_job(parser: argparse.ArgumentParser) -> None:
    """Those of a command that shows what a server says of a job: see `show_job`."""
    add_job_argument(parser)
    add_server_arguments(parser)


def show_job(
    arguments: argparse.Namespace, ask: Callable[[ClusterRest, str], Answer], show: Callable[[Answer], None]
) -> Answer:
    """Ask the server of the job's id, and print the answer: as JSON, or as `show` does."""
    from sqlstream.client.connection.cluster_rest import ClusterRest

    with ClusterRest(server_address(arguments)) as cluster:
        found = ask(cluster, cluster.job_id(arguments.id))
    (print_json if arguments.json else show)(found)
    return found


def server_address(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Address:
    """The server of the arguments. UserError for a wrong URL or token file, or one of `embedded://`."""
    from sqlstream.client.connection.address import parse_address, read_token
    from sqlstream.errors import UserError

    token = environment.get(TOKEN_VARIABLE, "")
    if arguments.token_file:
        token = read_token(arguments.token_file)
    url = arguments.server or environment.get(URL_VARIABLE, "")
    address = _local_server() if not url else parse_address(url)
    if address.is_embedded:
        raise UserError(
            "SS4040",
            "this command asks a server",
            hint=f"write --server {DEFAULT_URL}, or use: sqlstream run",
        )
    return dataclasses.replace(address, token=token or address.token or _local_token(address.url))


def _data_directory() -> str:
    from sqlstream.client.clusters.server_file import data_directory
    from sqlstream.client.configuration import load_configuration

    return data_directory(load_configuration().get("sqlstream.data-dir"))


def _server_file() -> dict[str, Any]:
    """What the server on this machine says of itself; empty when none runs."""
    try:
        with open(os.path.join(_data_directory(), SERVER_FILE), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _local_server() -> Address:
    from sqlstream.client.connection.address import parse_address

    return parse_address(str(_server_file().get("gateway") or DEFAULT_URL))


def _local_token(url: str) -> str:
    """The token of the server on this machine if the URL is its own: no other server gets to see it."""
    from sqlstream.client.connection.address import parse_address, read_token
    from sqlstream.errors import UserError

    found = _server_file()
    own = {parse_address(str(found[key])).url for key in ("gateway", "rest") if found.get(key)}
    if url not in own:
        return ""
    try:
        return read_token(os.path.join(_data_directory(), TOKEN_FILE))
    except UserError:
        # A server that asks for no token has made none.
        return ""


# Lists of a command: a table for people, JSON for programs.


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> None:
    """Rows under their columns, as wide as the terminal; a column of numbers is aligned as such."""
    import pyarrow as pa

    from sqlstream.client.rendering.render import make_renderer
    from sqlstream.client.rendering.tables import Look
    from sqlstream.client.rendering.terminal import columns_of
    from sqlstream.schema import Schema

    values = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]
    types: list[LogicalType] = [BIGINT if _are_numbers(column) else STRING for column in values]
    schema = Schema.of(*zip(columns, types, strict=True))
    arrays = [
        pa.array(column, pa.int64() if type_ is BIGINT else pa.string())
        for column, type_ in zip(values, types, strict=True)
    ]
    renderer = make_renderer("table", Look(schema, columns=columns_of(sys.stdout)), with_op=False, wraps=True)
    renderer.write(pa.RecordBatch.from_arrays(arrays, names=list(columns)))
    renderer.finish()


def _are_numbers(column: Sequence[object]) -> bool:
    known = [value for value in column if value is not None]
    return bool(known) and all(isinstance(value, int) for value in known)


def moment_text(time_ms: int) -> str:
    """A moment in local time; empty for one that is not there."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000)) if time_ms > 0 else ""


def duration_text(duration_ms: int) -> str:
    """
    >>> duration_text(950), duration_text(62_000), duration_text(90_061_000)
    ('0.95 s', '1 min 2 s', '1 d 1 h')
    """
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{hours} h {minutes % 60} min" if days == 0 else f"{days} d {hours % 24} h"


SAID_AFTER_S = 5.0
_RUNS = ("RUNNING", "FINISHED")


@contextlib.contextmanager
def savepoint_steps(cluster: ClusterRest, job_id: str) -> Iterator[Callable[[str], None]]:
    """What to call while a savepoint is awaited: it says once how many tasks the savepoint waits for, since it is taken when all
    of them run. Whoever gives up is told that the server does not."""
    said_s = time.monotonic() + SAID_AFTER_S
    is_said = False

    def on_step(step: str) -> None:
        nonlocal is_said, said_s
        if is_said or time.monotonic() < said_s:
            return
        said_s = time.monotonic() + SAID_AFTER_S
        counts: Counter[str] = Counter()
        for vertex in cluster.of_job(job_id)["vertices"]:
            counts.update(vertex["tasks"])
        waiting = sum(count for state, count in counts.items() if state not in _RUNS)
        if waiting:
            is_said = True
            print(
                f"{waiting} of {sum(counts.values())} tasks do not run, and the savepoint waits for them:"
                f" sqlstream diagnose {job_id}",
                file=sys.stderr,
                flush=True,
            )

    try:
        yield on_step
    except KeyboardInterrupt:
        print(f"the server takes the savepoint all the same: sqlstream checkpoints {job_id}", file=sys.stderr)
        raise
