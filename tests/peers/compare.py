"""`make bench-peers`: the same queries over the same files in sqlstream, Apache Flink and pyclink."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
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
from peers.report import Comparison, EngineInfo, Machine, Outcome, QueryResult, benchmarks_page  # noqa: E402
from peers.sqlstream_engine import Sqlstream  # noqa: E402

PEERS = ROOT / ".peers"
# One for each source subtask: engines hand out whole files.
FILES = 2
# Besides the run that checks: a JVM goes on compiling well into its second job.
WARM_UPS = 2
ENGINES: dict[str, Callable[[Path, Path], Engine]] = {
    "sqlstream": Sqlstream,
    "flink": lambda bids, logs: Flink(bids, logs, PEERS),
    "pyclink": lambda bids, logs: Pyclink(bids, logs, PEERS),
}

EPILOG = f"""\
queries: {", ".join(f"{query.name} ({query.title})" for query in QUERIES)}

examples:
  compare.py
  compare.py --events 200000 --rounds 1 --queries group,hop --output -
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


def compare(arguments: argparse.Namespace) -> Comparison:
    """Measure everything that the arguments ask for. PeerError when an engine cannot be had or started."""
    _say(f"{arguments.events:,} bids in {FILES} files")
    bids = make_bids(PEERS / "data", arguments.events, FILES)
    with _started(arguments.engines, bids) as engines:
        load = Load()
        results = []
        for query in arguments.queries:
            result = QueryResult(query, reference_totals(bids, query), {e.name: Outcome() for e in engines})
            measure(result, engines, load, arguments.rounds, arguments.timeout)
            results.append(result)
        return Comparison(
            events=arguments.events,
            files=FILES,
            size_bytes=size_bytes(bids),
            machine=_machine(),
            engines=[EngineInfo(e.name, e.version, e.setup) for e in engines],
            results=results,
            busy_elsewhere=load.busy_elsewhere,
        )


def measure(result: QueryResult, engines: list[Engine], load: Load, rounds: int, timeout_s: float) -> None:
    """Check and warm up each engine, then the rounds. An engine that fails is left out of the rest of this query."""
    query = result.query
    for engine in engines:
        _try(result, engine, "check", lambda e, o: _check(query, e, o, timeout_s))
        for index in range(WARM_UPS):
            _try(result, engine, f"warm-up {index + 1}", lambda e, o: e.run(query, timeout_s))
    for index in range(rounds):
        # Every other round in the opposite order, so that none is always the one after the same other.
        for engine in engines[:: 1 if index % 2 == 0 else -1]:
            _try(
                result,
                engine,
                f"round {index + 1}",
                lambda e, o: o.runs.append(load.during(lambda: e.run(query, timeout_s))),
            )


def _check(query: Query, engine: Engine, outcome: Outcome, timeout_s: float) -> None:
    outcome.totals = engine.totals(query, timeout_s)


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
def _started(names: list[str], bids: Path) -> Iterator[list[Engine]]:
    """The engines, up; all of them are stopped at the end, however it comes."""
    with contextlib.ExitStack() as stack:
        engines = []
        for name in names:
            _say(f"starting {name}")
            engine = ENGINES[name](bids, PEERS / "logs")
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
        "--events", type=_count, default=2_000_000, help="bids in the files (default: 2,000,000)"
    )
    parser.add_argument("--rounds", type=_count, default=5, help="measured runs of each query (default: 5)")
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
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(text, encoding="utf-8")


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
