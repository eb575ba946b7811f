"""`sqlstream bench`: how fast the engine answers the Nexmark queries, and what reading and writing topics of Kafka costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlstream.client.arguments import count
from sqlstream.client.rendering.live_line import LiveLine
from sqlstream.errors import UserError, did_you_mean

EPILOG = """\
examples:
  sqlstream bench nexmark
  sqlstream bench nexmark --queries q0,q5 --events 10000000 --parallelism 2 --json bench.json
  sqlstream bench nexmark --queries gen
  sqlstream bench nexmark --against duckdb --runs 3

Each query reads the engine's own generator into `blackhole`, q10 into its partitioned files in a directory of the system's for
temporary files. Event time spans 10 s unless --rate says otherwise. A query
runs once on a tenth of the events to warm up, then --runs times (the median is reported), then once more into a sink that
counts and checksums the final rows. CPU time is that of all processes, from submission to the end of the job.
`gen` is the generator alone: all columns of all three kinds of events, in one thread.

--against duckdb compares CPU ns per event with DuckDB's batch answer on one thread. DuckDB holds the same rows in memory
before it starts; parallelism is 1 unless given. `gross` is the whole job, `source` a job that only generates the columns
which the query reads, `net` the difference, and `net_by_duckdb` is `net` divided by DuckDB's figure. Both sides are warmed
up. Rows and checksums of both answers are compared; the exit code is 1 when they differ. q6, q18 and q19 may take either of
two equal rows: where theirs differ, VERIFY tells whether each answer is one of those that may be ("count only": DuckDB has
no memory left for both answers). q12 has windows by processing time, DuckDB one window: it is not compared.
"""


NEXMARK = "how fast the engine answers the Nexmark queries"
KAFKA = "what reading and writing topics of Kafka costs"
KAFKA_EPILOG = """\
examples:
  sqlstream bench kafka --servers localhost:9092
  sqlstream bench kafka --servers localhost:9092 --parts read,window --rows 5000000 --runs 3 --json kafka.json
  sqlstream bench kafka --servers broker:9093 --property security.protocol=SASL_SSL --property sasl.username=me …

Topics of its own are filled with objects of JSON of 162 bytes, and deleted at the end. Each has one partition, and jobs have
parallelism 1. Times are CPU time of all processes but the broker, per message: what more messages cost, so that beginning and end
of a job do not count; of --runs the median.

read      the bare loop (librdkafka's batch call, and a kernel that copies the payloads), and a job from the topic to blackhole
window    JSON, counted in tumbling windows of 10 s, beside the bare loop and decoding the same messages from memory
copy      a job from topic to topic, at least once
latency   from sending a message to its row at a client of this process, at 1,000 messages a second, for --seconds
idle      a job that reads 1,000 partitions of 100 topics without messages, for --seconds

The exit code is 1 when a figure is beyond its bar.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "examples:\n  sqlstream bench nexmark --queries q0\n\n`sqlstream bench nexmark --help` has the details.\n"
    workloads = parser.add_subparsers(dest="workload", metavar="WORKLOAD", required=True)
    nexmark = workloads.add_parser(
        "nexmark", help=NEXMARK, description=NEXMARK, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_nexmark_arguments(nexmark)
    kafka = workloads.add_parser(
        "kafka", help=KAFKA, description=KAFKA, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_kafka_arguments(kafka)


def _add_kafka_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = KAFKA_EPILOG
    parser.add_argument("--servers", required=True, help="brokers to measure with, as host:port")
    parser.add_argument(
        "--parts", default="", help="comma-separated: read, window, copy, latency, idle (default: all)"
    )
    parser.add_argument("--rows", type=count, default=4_000_000, help="messages to read (default: 4,000,000)")
    parser.add_argument("--runs", type=count, default=3, help="measured runs of each job (default: 3)")
    parser.add_argument("--seconds", type=count, default=20, help="for latency and idle (default: 20)")
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="a property of Kafka's clients"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all jobs"
    )
    add_json_argument(parser, "a JSON list, one object per figure,")


def _add_nexmark_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--queries", default="", help="comma-separated, e.g. q0,q5 (default: all that run, and gen)"
    )
    parser.add_argument(
        "--events", type=count, default=10_000_000, help="events to read (default: 10,000,000)"
    )
    parser.add_argument(
        "--parallelism", type=count, help="parallelism of the job (default: 2, with --against 1)"
    )
    parser.add_argument("--against", choices=["duckdb"], help="compare with DuckDB's batch answers")
    parser.add_argument("--rate", type=count, help="events per second of event time (default: events / 10)")
    parser.add_argument("--runs", type=count, default=1, help="measured runs of each query (default: 1)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all queries"
    )
    parser.add_argument("--no-checksum", action="store_true", help="skip the run that checks the result")
    add_json_argument(parser, "a JSON list, one object per query,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when all is as it should be, 1 when a job failed, an answer is not DuckDB's or a figure is beyond its bar."""
    return _execute_kafka(arguments) if arguments.workload == "kafka" else _execute_nexmark(arguments)


def _execute_kafka(arguments: argparse.Namespace) -> int:
    from sqlstream.client.benches.kafka import PARTS, KafkaBench

    parts = chosen(arguments.parts, PARTS, "part")
    settings, properties = bench_settings(arguments), dict(map(_property, arguments.property))
    check_writable(arguments.json)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    live = LiveLine()
    found = []
    print(f"{'':<32}{'measured':>14}{'bar':>14}", file=out, flush=True)
    with KafkaBench(
        arguments.servers, arguments.rows, arguments.runs, arguments.seconds, properties, settings
    ) as bench:
        for part in parts:
            live.draw(f"{part} …")
            for figure in bench.measure(part):
                live.erase()
                found.append(figure)
                bar = "" if figure.bar is None else f"{figure.bar:,.6g}"
                print(f"{figure.name:<32}{figure.value:>14,.4g}{bar:>14} {figure.unit}", file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if all(figure.is_within_bar for figure in found) else 1


def _property(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise UserError("SS4001", f'"{word}" is no property', hint="write --property KEY=VALUE")
    return key, value


def _execute_nexmark(arguments: argparse.Namespace) -> int:
    from sqlstream.client.benches.nexmark import (
        AGAINST_COLUMNS,
        COLUMNS,
        GENERATOR,
        NexmarkBench,
        available_queries,
    )

    available, columns = available_queries(), COLUMNS
    if arguments.against:
        available.remove(GENERATOR)
        columns = AGAINST_COLUMNS
    queries = chosen(arguments.queries, available, "Nexmark query")
    settings = bench_settings(arguments)
    check_writable(arguments.json)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    live = LiveLine()
    print(cells_line([name for name, _ in columns]), file=out, flush=True)
    results = []
    parallelism = arguments.parallelism or (1 if arguments.against else 2)
    with NexmarkBench(arguments.events, parallelism, arguments.rate, settings) as bench:
        for query in queries:
            live.draw(f"{query} …")
            if arguments.against:
                result = bench.run_against_duckdb(query, arguments.runs)
            else:
                result = bench.run(query, arguments.runs, with_checksum=not arguments.no_checksum)
            live.erase()
            results.append(result)
            print(cells_line([show(result[name]) for name, show in columns]), file=out, flush=True)
    write_json(arguments.json, results)
    wrong = [result["query"] for result in results if result.get("is_same_answer") is False]
    for query in wrong:
        print(f"error: {query} answers otherwise than duckdb", file=sys.stderr)
    return 1 if wrong else 0


def check_writable(path: str | None) -> None:
    """Check before minutes of work that `path` can be written. UserError SS5001."""
    if path is None or path == "-":
        return
    try:
        with open(path, "a", encoding="utf-8"):
            return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS5001", f'cannot write "{path}": {reason}', hint="give the path of a file to write"
        ) from error


def add_json_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """--json FILE, which `write_json` obeys. `what` is written there."""
    parser.add_argument("--json", metavar="FILE", help=f"write {what} to FILE (- for standard output)")


def write_json(path: str | None, figures: Any) -> None:
    """Write what --json asks for: to a file, to standard output for `-`, and nothing for None."""
    if path is None:
        return
    text = json.dumps(figures, indent=2)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")


def bench_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of --set. UserError for a wrong one, or one for another target."""
    from sqlstream.client.configuration import settings_of_words
    from sqlstream.client.sessions.target_session import refuse_target

    settings = settings_of_words(arguments.set)
    refuse_target(settings, "sqlstream bench")
    return settings


def chosen(text: str, available: list[str] | tuple[str, ...], kind: str) -> list[str]:
    """The names of a comma-separated list, all for an empty one. UserError SS4005 for one that is not there."""
    if not text:
        return list(available)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in available:
            hint = did_you_mean(name, available) or f"choose of {', '.join(available)}"
            raise UserError("SS4005", f'there is no {kind} "{name}"', hint=hint)
    return list(dict.fromkeys(names))


def cells_line(cells: Sequence[str], width: int = 18) -> str:
    return "".join(f"{cell:>{width}}" for cell in cells)
