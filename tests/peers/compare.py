"""`make bench-peers`: the same queries over the same files in sqlstream, Apache Flink and pyclink."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
# Run as a script: the folders of `peers` and of the engine come first, and not that of this file, where module names
# are those of the packages they are about.
sys.path[0:1] = [str(ROOT / "tests"), str(ROOT)]

from peers.data import make_bids, reference_totals, size_bytes  # noqa: E402
from peers.engine import Engine, Run  # noqa: E402
from peers.flink import Flink  # noqa: E402
from peers.install import PeerError  # noqa: E402
from peers.pyclink import Pyclink  # noqa: E402
from peers.queries import QUERIES, Query, chosen  # noqa: E402
from peers.report import (  # noqa: E402
    Comparison,
    EngineInfo,
    Machine,
    Outcome,
    QueryResult,
    benchmarks_page,
    kept_section,
    next_events,
)
from peers.sqlstream_engine import Sqlstream  # noqa: E402

PEERS = ROOT / ".peers"
# One for each source subtask: engines hand out whole files.
FILES = 2
# Besides the run that checks: a JVM goes on compiling well into its second job.
WARM_UPS = 2
# What is left of the disk besides the files.
DISK_RESERVE_BYTES = 4 * 2**30
# Of the job that shows what any job costs, and how often it runs after its warm-ups.
SHORT_EVENTS = 1_000
SHORT_RUNS = 5
ENGINES: dict[str, Callable[[Path], Engine]] = {
    "sqlstream": Sqlstream,
    "flink": lambda logs: Flink(logs, PEERS),
    "pyclink": lambda logs: Pyclink(logs, PEERS),
}

EPILOG = f"""\
queries: {", ".join(f"{query.name} ({query.title})" for query in QUERIES)}

examples:
  compare.py
  compare.py --events 200000 --seconds 1 --rounds 1 --queries group,hop --output -
  compare.py --engines sqlstream,pyclink --json out/peers.json

Installs the peers from the package index into .peers/, where the files and the logs are too. Ctrl-C stops everything that was
started. Exits with 1 when an engine failed or gave a wrong answer.
"""


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        comparison = compare(arguments)
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    if arguments.json:
        _write(arguments.json, json.dumps(dataclasses.asdict(comparison), indent=2) + "\n")
    _write(arguments.output, benchmarks_page(comparison))
    for fault in comparison.faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if comparison.faults else 0


class Load:
    """What other programs take of the machine during measured runs. State: seconds of all cores, in total and elsewhere."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._elsewhere_s = 0.0

    @property
    def busy_elsewhere(self) -> float:
        """A share of the machine's CPU time."""
        return self._elsewhere_s / self._total_s if self._total_s else 0.0

    def during(self, act: Callable[[], Run]) -> Run:
        busy, started = _busy_seconds(), time.monotonic()
        run = act()
        self._total_s += (time.monotonic() - started) * (psutil.cpu_count() or 1)
        self._elsewhere_s += max(0.0, _busy_seconds() - busy - run.cpu_s)
        return run


class Inputs:
    """Directories of bids, made when they are first asked for.

    State: the files in `folder`, which stay for the next comparison. `events` are those that answers are checked with, `most`
    (a power of two times as many) those that there is room for.
    """

    def __init__(self, folder: Path, events: int, bytes_max: int) -> None:
        self._folder = folder
        self.events = events
        self.size_bytes = size_bytes(self.bids(events))
        room = min(bytes_max, shutil.disk_usage(folder).free - DISK_RESERVE_BYTES)
        self.most = events
        while 2 * self.most * self.size_bytes <= room * events:
            self.most *= 2

    def bids(self, events: int) -> Path:
        return make_bids(self._folder, events, FILES)


def compare(arguments: argparse.Namespace) -> Comparison:
    """Measure everything that the arguments ask for. PeerError when an engine cannot be had or started."""
    _say(f"{arguments.events:,} bids in {FILES} files")
    inputs = Inputs(PEERS / "data", arguments.events, arguments.gib_max * 2**30)
    with _started(arguments.engines) as engines:
        load = Load()
        short_jobs = {e.name: _short_jobs(e, inputs.bids(SHORT_EVENTS), arguments.timeout) for e in engines}
        results = []
        for query in arguments.queries:
            expected = reference_totals(inputs.bids(inputs.events), query)
            result = QueryResult(query, expected, {e.name: Outcome() for e in engines})
            measure(result, engines, inputs, load, arguments)
            results.append(result)
        return Comparison(
            events=inputs.events,
            seconds=arguments.seconds,
            short_events=SHORT_EVENTS,
            files=FILES,
            size_bytes=inputs.size_bytes,
            machine=_machine(),
            engines=[EngineInfo(e.name, e.version, e.setup) for e in engines],
            results=results,
            busy_elsewhere=load.busy_elsewhere,
            short_jobs=short_jobs,
        )


def _short_jobs(engine: Engine, bids: Path, timeout_s: float) -> list[Run]:
    """What a job costs that hardly has anything to do; none when the engine fails."""
    try:
        runs = [engine.run(QUERIES[0], bids, timeout_s) for _ in range(WARM_UPS + SHORT_RUNS)]
    except PeerError as error:
        _say(f"{engine.name} short job: {error}")
        return []
    return runs[WARM_UPS:]


def measure(
    result: QueryResult, engines: list[Engine], inputs: Inputs, load: Load, arguments: argparse.Namespace
) -> None:
    """Check, warm up and size each engine, then the rounds. An engine that fails is left out of the rest of this query."""
    query, timeout_s = result.query, arguments.timeout
    base = inputs.bids(inputs.events)
    for engine in engines:
        _try(result, engine, "check", lambda e, o: _check(query, e, o, base, timeout_s))
        for index in range(WARM_UPS):
            _try(result, engine, f"warm-up {index + 1}", lambda e, o: e.run(query, base, timeout_s))
        _try(
            result,
            engine,
            "sizing",
            lambda e, o: _size(query, e, o, inputs, arguments.seconds, timeout_s),
        )
    for index in range(arguments.rounds):
        # Every other round in the opposite order, so that none is always the one after the same other.
        for engine in engines[:: 1 if index % 2 == 0 else -1]:
            _try(
                result,
                engine,
                f"round {index + 1}",
                lambda e, o: o.runs.append(
                    load.during(lambda: e.run(query, inputs.bids(o.events), timeout_s))
                ),
            )


def _size(
    query: Query, engine: Engine, outcome: Outcome, inputs: Inputs, seconds: int, timeout_s: float
) -> None:
    """Find how many bids make a run last `seconds`; the last try has lasted so long, or there is no room for more."""
    outcome.events = inputs.events
    while outcome.events < inputs.most:
        run = engine.run(query, inputs.bids(outcome.events), timeout_s)
        _say(f"{query.name}: {engine.name} takes {run.wall_s:.1f} s for {outcome.events:,} bids")
        if run.wall_s >= seconds:
            return
        outcome.events = next_events(outcome.events, run.wall_s, seconds, inputs.most)


def _check(query: Query, engine: Engine, outcome: Outcome, bids: Path, timeout_s: float) -> None:
    outcome.totals = engine.totals(query, bids, timeout_s)


def _try(result: QueryResult, engine: Engine, what: str, act: Callable[[Engine, Outcome], object]) -> None:
    outcome = result.outcomes[engine.name]
    if outcome.error is not None:
        return
    try:
        act(engine, outcome)
    except PeerError as error:
        # The page is published: it names no place of this machine.
        outcome.error = " ".join(str(error).replace(str(ROOT), ".").split())[:300]
        outcome.runs.clear()
    last = outcome.runs[-1] if what.startswith("round") and outcome.runs else None
    figures = f"{last.wall_s:.2f} s, {last.cpu_s:.2f} s of CPU" if last else outcome.error or "done"
    _say(f"{result.query.name}: {engine.name} {what}: {figures}")


@contextlib.contextmanager
def _started(names: list[str]) -> Iterator[list[Engine]]:
    """The engines, up; all of them are stopped at the end, however it comes."""
    with contextlib.ExitStack() as stack:
        engines = []
        for name in names:
            _say(f"starting {name}")
            engine = ENGINES[name](PEERS / "logs")
            stack.callback(engine.stop)
            engines.append(engine)
        yield engines


def _busy_seconds() -> float:
    """CPU time of everything on the machine."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _machine() -> Machine:
    model = "unknown CPU"
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model
        )
    return Machine(model, psutil.cpu_count() or 1, psutil.virtual_memory().total)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure sqlstream beside its peers and write docs/benchmarks.md.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--queries", type=_queries, default=QUERIES, help="comma-separated (default: all)")
    parser.add_argument(
        "--events",
        type=_count,
        default=2_000_000,
        help="bids that answers are checked with (default: 2,000,000)",
    )
    parser.add_argument(
        "--seconds", type=_count, default=30, help="how long a measured run is to last (default: 30)"
    )
    parser.add_argument(
        "--gib-max", type=_count, default=32, help="GiB of the largest directory of files (default: 32)"
    )
    parser.add_argument("--rounds", type=_count, default=3, help="measured runs of each query (default: 3)")
    parser.add_argument(
        "--engines",
        type=_engines,
        default=list(ENGINES),
        help=f"comma-separated (default: {','.join(ENGINES)})",
    )
    parser.add_argument("--timeout", type=_count, default=300, help="seconds a job may take (default: 300)")
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE (- for standard output)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=str(ROOT / "docs" / "benchmarks.md"),
        help="where the page goes (default: docs/benchmarks.md, - for standard output)",
    )
    return parser.parse_args()


def _count(text: str) -> int:
    value = int(text.replace(",", "").replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _queries(text: str) -> tuple[Query, ...]:
    try:
        return chosen(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _engines(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ENGINES:
            raise argparse.ArgumentTypeError(f'there is no engine "{name}": choose from {", ".join(ENGINES)}')
    return names or list(ENGINES)


def _write(target: str, text: str) -> None:
    if target == "-":
        print(text, end="")
        return
    page = Path(target)
    page.parent.mkdir(parents=True, exist_ok=True)
    kept = kept_section(page.read_text(encoding="utf-8")) if page.exists() else ""
    page.write_text(text + kept, encoding="utf-8")


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
