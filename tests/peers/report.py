"""Turns what was measured into docs/benchmarks.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from peers.engine import Run
from peers.queries import Query

BASE = "sqlstream"
"""The engine that the others are compared with."""

KEPT_FROM = "## Which engine when"
"""The heading from which on the page is written by hand."""


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int
    memory_bytes: int


@dataclass(frozen=True)
class EngineInfo:
    name: str
    version: str
    setup: str


@dataclass
class Outcome:
    """What one engine made of one query. `error` says why there are no runs.

    `events` are those of one run: as many as make it last, or as there is room for.
    """

    events: int = 0
    runs: list[Run] = field(default_factory=list)
    totals: list[int] | None = None
    error: str | None = None

    @property
    def wall_s(self) -> float:
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        return statistics.median(run.cpu_s for run in self.runs)


@dataclass
class QueryResult:
    """`expected` has the number of rows of the right answer, then its sums."""

    query: Query
    expected: list[int]
    outcomes: dict[str, Outcome]


@dataclass
class Comparison:
    """A whole comparison. `busy_elsewhere` is the share of the machine that other programs took while it ran.

    Answers are checked over `events` bids in `size_bytes`; measured runs are to last `seconds`. `short_jobs`: runs over
    `short_events` bids by engine.
    """

    events: int
    seconds: int
    short_events: int
    files: int
    size_bytes: int
    machine: Machine
    engines: list[EngineInfo]
    results: list[QueryResult]
    busy_elsewhere: float = 0.0
    short_jobs: dict[str, list[Run]] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return max((len(o.runs) for r in self.results for o in r.outcomes.values()), default=0)

    @property
    def largest_input_bytes(self) -> int:
        most = max((o.events for r in self.results for o in r.outcomes.values()), default=self.events)
        return most * self.size_bytes // self.events

    @property
    def faults(self) -> list[str]:
        """A sentence for each failure and each wrong answer."""
        found = []
        for result in self.results:
            for engine, outcome in result.outcomes.items():
                if outcome.error is not None:
                    found.append(f"{engine} failed on `{result.query.name}`: {outcome.error}")
                elif outcome.totals is not None and outcome.totals != result.expected:
                    found.append(
                        f"{engine}'s answer to `{result.query.name}` adds up to {outcome.totals}, not {result.expected}"
                    )
        return found


def significant(value: float, digits: int = 3) -> str:
    """The number with so many significant digits, never in scientific notation.

    >>> significant(1234.5), significant(12.345), significant(0.012345)
    ('1,230', '12.3', '0.0123')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(0, decimals)}f}"


def ratios(base: Outcome, peer: Outcome) -> tuple[float, float]:
    """How many times as many events as the peer the base does, per CPU-second and per second of wall time.

    Runs of one round are compared with each other; the median over the rounds counts. Needs a round.
    """
    pairs = list(zip(base.runs, peer.runs, strict=False))
    scale = base.events / peer.events
    return (
        scale * statistics.median(theirs.cpu_s / ours.cpu_s for ours, theirs in pairs),
        scale * statistics.median(theirs.wall_s / ours.wall_s for ours, theirs in pairs),
    )


def next_events(events: int, wall_s: float, seconds: float, most: int) -> int:
    """How many events to try next when a run over `events` took `wall_s`: a power of two times as many, at most `most`.

    >>> next_events(2_000_000, 3.0, 30.0, 1_000_000_000), next_events(2_000_000, 29.0, 30.0, 1_000_000_000)
    (32000000, 4000000)
    """
    # A tenth more: the time that a job costs once does not grow with its events.
    wanted = 1.1 * seconds / wall_s
    return min(most, events * 2 ** max(1, math.ceil(math.log2(wanted))))


def spread(values: Sequence[float]) -> str:
    """How far the largest is from the smallest, as a share of the median."""
    return f"{(max(values) - min(values)) / statistics.median(values):.0%}"


def benchmarks_page(comparison: Comparison) -> str:
    """The text of docs/benchmarks.md."""
    sections = [
        _introduction(comparison),
        _ratio_table(comparison),
        _figures(comparison),
        _short_jobs(comparison),
        _method(comparison),
        _caveats(comparison),
        _queries(comparison),
        _repeat(comparison),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def kept_section(page: str) -> str:
    """The end of a page that this module does not write: all from the heading of KEPT_FROM on."""
    _, heading, section = page.partition(f"\n{KEPT_FROM}\n")
    return f"\n{KEPT_FROM}\n{section}" if heading else ""


def _introduction(comparison: Comparison) -> str:
    machine = comparison.machine
    return (
        "# Benchmarks beside other engines\n\n"
        "<!-- Written by tests/peers/report.py: change it there and run `make bench-peers`."
        f" What follows `{KEPT_FROM}` is not: it is kept. -->\n\n"
        f"The same queries over files of newline JSON, {significant(comparison.size_bytes / comparison.events)} bytes a bid,"
        f" in {', '.join(e.name for e in comparison.engines)}, on one machine: {machine.cores} cores ({machine.cpu}),"
        f" {significant(machine.memory_bytes / 2**30, 2)} GiB of memory. The figures include reading the files and decoding JSON,"
        " which is most of the work of the simpler queries. `sqlstream bench nexmark` measures the engine without either, and"
        " with `--against duckdb` beside a batch answer over rows in memory ([benchmarks_nexmark.md](benchmarks_nexmark.md))."
        f"\n\nEach engine reads so many bids that a measured run lasts at least {comparison.seconds} s, or as many as there was"
        " room for: figures are those of a job at work, and what a job costs once stands apart."
    )


def _ratio_table(comparison: Comparison) -> str:
    peers = [engine.name for engine in comparison.engines if engine.name != BASE]
    rows = []
    for result in comparison.results:
        base = result.outcomes.get(BASE)
        if base is None or not base.runs:
            continue
        cells = []
        for peer in peers:
            other = result.outcomes[peer]
            cells += [significant(r, 2) for r in ratios(base, other)] if other.runs else ["failed", "failed"]
        rows.append([f"`{result.query.name}`", result.query.title, *cells])
    if not rows or not peers:
        return ""
    heads = [f"{figure} vs {peer}" for peer in peers for figure in ("per CPU-second", "wall time")]
    return (
        "## Ratios\n\n"
        "How many times as many events sqlstream takes in per CPU-second, and how many times as fast it is on the clock;"
        " above 1 sqlstream is ahead.\n\n" + _table(["query", "what it does", *heads], rows)
    )


def _figures(comparison: Comparison) -> str:
    rows = []
    for result in comparison.results:
        for engine, outcome in result.outcomes.items():
            rows.append([f"`{result.query.name}`", engine, *_figures_of(comparison, result, outcome)])
    heads = [
        "query",
        "engine",
        "M events",
        "wall s",
        "CPU s",
        "M events/s",
        "M events/CPU-s",
        "spread of CPU",
        "result rows",
    ]
    is_short = any(
        o.runs and o.wall_s < comparison.seconds for r in comparison.results for o in r.outcomes.values()
    )
    note = (
        f"\n\n† less than {comparison.seconds} s: there was no room for larger files, or the engine had warmed up more."
        if is_short
        else ""
    )
    return (
        "## Figures\n\n"
        f"Medians of {comparison.rounds} rounds. Result rows are those of the answer that was checked, over"
        f" {comparison.events:,} bids.\n\n{_table(heads, rows)}{note}"
    )


def _short_jobs(comparison: Comparison) -> str:
    rows = [
        [
            engine,
            significant(statistics.median(run.wall_s for run in runs)),
            significant(statistics.median(run.cpu_s for run in runs)),
        ]
        for engine, runs in comparison.short_jobs.items()
        if runs
    ]
    if not rows:
        return ""
    return (
        "## What a short job costs\n\n"
        f"`pass` over {comparison.short_events:,} bids, from handing over the `INSERT` to the end of the job, on an engine that"
        " is up and warm: planning, deploying, and noticing the end. It is in the figures above too, and nothing is subtracted"
        " there.\n\n" + _table(["engine", "wall s", "CPU s"], rows)
    )


def _figures_of(comparison: Comparison, result: QueryResult, outcome: Outcome) -> list[str]:
    if not outcome.runs:
        return ["failed", *[""] * 6]
    checked = "not checked" if outcome.totals is None else f"{outcome.totals[0]:,}"
    if outcome.totals is not None and outcome.totals != result.expected:
        checked += f" (wrong: {result.expected[0]:,} expected)"
    mark = " †" if outcome.wall_s < comparison.seconds else ""
    return [
        significant(outcome.events / 1e6),
        significant(outcome.wall_s) + mark,
        significant(outcome.cpu_s),
        significant(outcome.events / outcome.wall_s / 1e6),
        significant(outcome.events / outcome.cpu_s / 1e6),
        spread([run.cpu_s for run in outcome.runs]),
        checked,
    ]


def _method(comparison: Comparison) -> str:
    setups = "\n".join(f"* **{e.name}** {e.version}: {e.setup}." for e in comparison.engines)
    return (
        "## How it is measured\n\n"
        f"{setups}\n\n"
        "All engines are up before the first query, side by side, and idle when it is not their turn. For each query, every"
        f" engine first answers it once over {comparison.events:,} bids with the answer added up, which is compared with DuckDB's"
        " batch answer over the same files, and then twice into the sink that is measured, so that code is compiled. Then"
        f" it gets ever more bids until a run lasts {comparison.seconds} s. Then come the rounds: in each, every engine runs the"
        " query once over so many, in an order that turns from round to round. Wall time is from handing over the `INSERT`"
        " (planning is in it) to the end of the job. CPU time is that of all the engine's processes over the same time: for"
        " Flink the JobManager, the TaskManager and the client's JVM, with compilation and garbage collection; for sqlstream"
        " the session's process and its TaskManagers. A ratio is that of the runs of one round; the median over the rounds"
        " is shown, as events in that time.\n\n"
        f"The bids are those of the engine's own Nexmark generator, {comparison.files} files, one for each source subtask,"
        " dealt in turn so that no row is late. `dateTime` is written as epoch milliseconds, which all of the engines take as"
        " event time; Flink and sqlstream make a time attribute of it with `TO_TIMESTAMP_LTZ`. Watermarks are 4 s behind."
    )


def _caveats(comparison: Comparison) -> str:
    points = [
        "One small machine, shared with other programs, which took"
        f" {comparison.busy_elsewhere:.0%} of its CPU time while this ran: wall times suffer from that more than CPU times do.",
        "More bids are more of the same stream over the same minute of event time: a window of 10 s has more rows, and the"
        " engine with the larger input has more distinct auctions in it.",
        "The engines do not promise the same here: Flink is set to take checkpoints, the others take none.",
        "They do not emit the same changelog for `group`: Flink and sqlstream gather updates in batches, pyclink writes a row"
        " for each row that it reads. The final rows are the same.",
        "A query need not pay for what it does not read: engines are free to leave such columns undecoded.",
    ]
    if comparison.largest_input_bytes > comparison.machine.memory_bytes / 2:
        points.append(
            f"The largest input has {comparison.largest_input_bytes / 2**30:.0f} GiB, which the machine's cache does not hold"
            " beside the other inputs: it is read from the disk in each run. That costs every engine the same CPU and wall"
            " time per byte, so that it weighs most for the one that decodes the most bytes per second."
        )
    present = {engine.name for engine in comparison.engines}
    kept = [
        p
        for p in points
        if ("Flink" not in p or "flink" in present) and ("pyclink" not in p or "pyclink" in present)
    ]
    faults = "".join(f"\n* {fault}" for fault in comparison.faults)
    return "## What to keep in mind\n\n" + "\n".join(f"* {point}" for point in kept) + faults


def _queries(comparison: Comparison) -> str:
    texts = "\n\n".join(f"-- {r.query.name}: {r.query.title}\n{r.query.flink};" for r in comparison.results)
    return f"## Queries\n\nIn Flink's dialect, which sqlstream reads as it is:\n\n```sql\n{texts}\n```"


def _repeat(comparison: Comparison) -> str:
    return (
        "## Repeat it\n\n"
        f"`make bench-peers` installs the peers from the package index into `.peers/`, makes the files there, measures and"
        " writes this page. `.venv/bin/python tests/peers/compare.py --help` lists what can be chosen; this page is from"
        f" `--events {comparison.events} --seconds {comparison.seconds} --rounds {comparison.rounds}"
        f" --engines {','.join(e.name for e in comparison.engines)}`."
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
