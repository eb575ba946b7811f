"""`sqlstream rescale ID --parallelism N`: take a running job of a server to another parallelism."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_job_argument,
    add_server_arguments,
    print_json,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream rescale 4f1c --parallelism 4
  sqlstream rescale 4f1c --parallelism 1 --json | jq .seconds

ID is a job's id, or the first characters of it. The job runs on until it has the slots that it needs. Then it takes a checkpoint,
its tasks end, and they go on from it with the other parallelism, also after a restart of the server; the time until all of them
run is printed. Operators with a parallelism of their own ('scan.parallelism', 'sink.parallelism', those of a SELECT without keys)
keep it. What fails on the way leaves the job with the parallelism that it had. No parallelism can be above the job's
'pipeline.max-parallelism', which is 128 unless it is set.
{SERVER_EPILOG}"""

_SAID = {
    "SLOTS": "waiting for slots",
    "CHECKPOINT": "taking a checkpoint",
    "STOPPING": "ending its tasks",
    "STORING": "keeping the job",
    "STARTING": "starting its tasks",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_job_argument(parser, is_running=True)
    parser.add_argument(
        "--parallelism", "-p", type=_positive, required=True, metavar="N", help="how many subtasks there are"
    )
    add_server_arguments(parser)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError(f'"{text}" is no parallelism: give a number above 0')
    return int(text)


def execute(arguments: argparse.Namespace) -> int:
    """0 once all tasks of the job run with the other parallelism."""
    from sqlstream.client.connection.cluster_rest import ClusterRest

    begun_s = time.monotonic()
    with ClusterRest(server_address(arguments)) as cluster:
        job_id = cluster.job_id(arguments.id)
        try:
            done = cluster.rescale(job_id, arguments.parallelism, _progress(sys.stderr.isatty()))
        except KeyboardInterrupt:
            print(f"the job goes on being rescaled: sqlstream job {job_id}", file=sys.stderr)
            raise
    seconds = time.monotonic() - begun_s
    if arguments.json:
        print_json(
            {
                "jid": job_id,
                "earlier": done["earlier"],
                "parallelism": done["parallelism"],
                "seconds": round(seconds, 3),
            }
        )
    elif done["earlier"] == done["parallelism"]:
        print(f"job {job_id} runs with parallelism {done['parallelism']} already")
    else:
        print(f"job {job_id} runs with parallelism {done['parallelism']} after {seconds:.1f} s")
    return 0


def _progress(is_terminal: bool) -> Callable[[str], None]:
    """Prints each step once, to people alone."""
    said: set[str] = set()

    def on_step(step: str) -> None:
        if is_terminal and step in _SAID and step not in said:
            said.add(step)
            print(f"{_SAID[step]} …", file=sys.stderr, flush=True)

    return on_step
