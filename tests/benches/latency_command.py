"""`main.py latency`: how soon results are visible to a client of a server."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, write_json

EPILOG = """\
examples:
  python tests/benches/main.py latency
  python tests/benches/main.py latency --seconds 300 --rate 1000 --json latency.json
  python tests/benches/main.py latency --server http://localhost:8083

Three figures, each as a client sees it over HTTP, as an Arrow stream:

window result   a generator emits --rate rows per second, whose event time is the clock's, into a tumbling count of one second.
                Measured is the time from the end of a window in event time to its row at the client, for --seconds windows.
VALUES query    from the statement to the first row, --runs times.
aggregate       SELECT key, SUM(value) over a file of 1,000 rows: from the statement to its first row, --runs times.

Unless --server is given, a server with default settings is started for the measurement and ended after it. It is warmed up
before: the first runs are not counted. Client and server share the machine and its clock. The exit code is 1 when a figure is
above its bar.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--rate", type=count, default=10_000, help="rows per second (default: 10,000)")
    parser.add_argument("--seconds", type=count, default=60, help="windows to measure (default: 60)")
    parser.add_argument("--runs", type=count, default=50, help="runs of each statement (default: 50)")
    parser.add_argument("--server", metavar="URL", help="the server to measure, on this machine")
    parser.add_argument("--token-file", metavar="FILE", help="a file whose first line is the server's token")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when every figure is within its bar, else 1."""
    from benches.latency import Figure, figures

    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(_line(("", "p50 ms", "p99 ms", "max ms", "bar ms", "count")), file=out, flush=True)
    found: list[Figure] = []
    with _server(arguments) as url:
        for figure in figures(url, arguments.rate, arguments.seconds, arguments.runs):
            found.append(figure)
            cells = [f"{x:.1f}" for x in (figure.p50_ms, figure.p99_ms, figure.max_ms)]
            print(_line((figure.name, *cells, f"{figure.bar_ms}", f"{figure.count}")), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if all(figure.is_within_bar for figure in found) else 1


@contextlib.contextmanager
def _server(arguments: argparse.Namespace) -> Iterator[str]:
    """The URL of the given server with its token, or of one that lives as long as the measurement."""
    from benches.latency import own_server

    from sqlstream.client.connection.address import read_token

    if arguments.server is None:
        with own_server() as (url, _):
            yield url
        return
    token = read_token(arguments.token_file) if arguments.token_file else ""
    separator = "&" if "?" in arguments.server else "?"
    yield f"{arguments.server}{separator}token={token}" if token else arguments.server


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<16}" + "".join(f"{cell:>10}" for cell in cells[1:])
