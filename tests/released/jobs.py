"""Jobs whose savepoints are kept of each release, and how their rows are read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROWS = 1_600
WATCHED = 40
"""Rows of each file that a job of files reads: the second is there only when it goes on."""

NUMBERS = f"""CREATE TABLE numbers (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n * 100, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'datagen', 'rows-per-second' = '400', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
    'fields.n.end' = '{ROWS}')"""
OTHERS = f"""CREATE TABLE others (m BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '300',
    'fields.m.kind' = 'sequence', 'fields.m.start' = '1', 'fields.m.end' = '{ROWS}')"""
WATCHED_FILES = """CREATE TABLE watched (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv',
    'path' = '{directory}/watched', 'source.monitor-interval' = '200 ms')"""


class Job(NamedTuple):
    """`columns` of its table, whose rows are a changelog when they change."""

    columns: str
    query: str
    changes: bool = False


JOBS = {
    "windowed": Job(
        "start_ms BIGINT, k BIGINT, c BIGINT, total BIGINT",
        """SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)), MOD(n, 3), COUNT(*), SUM(n)
        FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end, MOD(n, 3)""",
    ),
    "joined": Job("n BIGINT, m BIGINT", "SELECT n, m FROM numbers JOIN others ON n = m + MOD(m, 7)"),
    "summed": Job(
        "n BIGINT, total BIGINT",
        """SELECT n, SUM(n) OVER (PARTITION BY MOD(n, 3) ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM numbers""",
    ),
    "best": Job(
        "k BIGINT, place BIGINT, n BIGINT",
        """SELECT k, place, n FROM (SELECT MOD(n, 3) AS k, n, ROW_NUMBER() OVER (PARTITION BY MOD(n, 3)
        ORDER BY MOD(n * 37, 1009) DESC, n) AS place FROM numbers) WHERE place <= 3""",
        changes=True,
    ),
    "matched": Job(
        "first_n BIGINT, last_n BIGINT",
        """SELECT first_n, last_n FROM parted MATCH_RECOGNIZE (PARTITION BY p ORDER BY ts
        MEASURES A.n AS first_n, LAST(B.n) AS last_n ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (A B{4} C) DEFINE A AS MOD(A.n, 5) = 0, B AS MOD(B.n, 5) <> 0, C AS MOD(C.n, 5) = 0)""",
    ),
    "firsts": Job(
        "k BIGINT, n BIGINT",
        """SELECT k, n FROM (SELECT n / 3 AS k, n, ROW_NUMBER() OVER (PARTITION BY n / 3 ORDER BY ts) AS place FROM numbers)
        WHERE place = 1""",
        changes=True,
    ),
    "groups": Job(
        "k BIGINT, c BIGINT, total BIGINT, kinds BIGINT",
        "SELECT MOD(n, 5), COUNT(*), SUM(n), COUNT(DISTINCT MOD(n, 11)) FROM numbers GROUP BY MOD(n, 5)",
        changes=True,
    ),
    "copied": Job("n BIGINT", "SELECT n FROM watched"),
}

VIEWS = ("CREATE VIEW parted AS SELECT n, MOD(n, 2) AS p, ts FROM numbers",)


def statements(directory: Path) -> list[str]:
    """What makes the tables of all jobs, with their files below a directory."""
    tables = [NUMBERS, OTHERS, WATCHED_FILES.replace("{directory}", str(directory)), *VIEWS]
    for name, job in JOBS.items():
        how = "debezium-json" if job.changes else "csv"
        tables.append(
            f"CREATE TABLE {name} ({job.columns}) WITH ('connector' = 'filesystem', 'format' = '{how}',"
            f" 'path' = '{directory}/{name}', 'sink.parallelism' = '1')"
        )
    return tables


def put_watched(directory: Path, number: int) -> None:
    (directory / "watched").mkdir(exist_ok=True)
    draft = directory / "watched" / f".{number}"
    draft.write_text("".join(f"{n}\n" for n in range(number * WATCHED, (number + 1) * WATCHED)))
    draft.rename(directory / "watched" / f"{number}.csv")


def lines(directory: Path, name: str) -> list[str]:
    """What is visible of a table."""
    files = [p for p in (directory / name).glob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    return sorted(line for path in files for line in path.read_text().splitlines())


def table(name: str, written: list[str]) -> Counter[str]:
    """The rows of a table after all its lines; what is in it twice counts twice."""
    if not JOBS[name].changes:
        return Counter(written)
    found: Counter[str] = Counter()
    for line in written:
        change = json.loads(line)
        if change["before"] is not None:
            found[",".join(map(str, change["before"].values()))] -= 1
        if change["after"] is not None:
            found[",".join(map(str, change["after"].values()))] += 1
    return +found


def expected(name: str) -> Counter[str]:
    """The rows that a job has written when all its input is read, by plain Python."""
    numbers = range(1, ROWS + 1)
    match name:
        case "windowed":
            starts = {}
            for n in numbers:
                starts.setdefault((n // 100 * 10, n % 3), []).append(n)
            rows = [(start, k, len(ns), sum(ns)) for (start, k), ns in starts.items()]
        case "joined":
            rows = [(m + m % 7, m) for m in numbers if m + m % 7 <= ROWS]
        case "summed":
            rows = [(n, sum(range(n, max(n - 7, 0), -3))) for n in numbers]
        case "best":
            rows = [
                (k, place, n)
                for k in range(3)
                for place, n in enumerate(
                    sorted((n for n in numbers if n % 3 == k), key=lambda n: (-(n * 37 % 1009), n))[:3], 1
                )
            ]
        case "matched":
            rows = _matches()
        case "firsts":
            rows = [(k, min(n for n in range(3 * k, 3 * k + 3) if n)) for k in range(ROWS // 3 + 1)]
        case "groups":
            of = {k: [n for n in numbers if n % 5 == k] for k in range(5)}
            rows = [(k, len(ns), sum(ns), len({n % 11 for n in ns})) for k, ns in of.items()]
        case _:
            rows = [(n,) for n in range(2 * WATCHED)]
    return Counter(",".join(map(str, row)) for row in rows)


def _matches() -> list[tuple[int, int]]:
    found = []
    for parity in range(2):
        row, ns = 0, [n for n in range(1, ROWS + 1) if n % 2 == parity]
        while row + 5 < len(ns):
            a, *b, c = ns[row : row + 6]
            if a % 5 == 0 and c % 5 == 0 and all(n % 5 for n in b):
                found.append((a, b[-1]))
                row += 6
            else:
                row += 1
    return found
