"""`sqlstream run queries/getting_started.sql` writes and prints what DuckDB answers over the same files, without a warning.

With a watermark that waits for three hours, late flights are missing from the answer and counted."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from command_harness import sqlstream
from oracle import Row, assert_same_rows, rows_of

ROOT = Path(__file__).parents[2]

VIEWS = """
CREATE VIEW flights AS
SELECT *, time_hour + to_minutes(minute) AS departure, row_number() OVER () AS place
FROM read_csv('{data}/flights.csv', nullstr='NA', parallel=false, types={{'time_hour': 'TIMESTAMP', 'dep_time': 'INTEGER',
    'dep_delay': 'INTEGER'}});

CREATE VIEW weather AS
SELECT *, time_hour AS observed
FROM read_csv('{data}/weather.csv', nullstr='NA', types={{'time_hour': 'TIMESTAMP'}});

-- The watermark before a row: the highest of the rows ahead of it in the file.
CREATE VIEW marked AS
SELECT *, date_trunc('hour', departure) AS hour_start, date_trunc('day', departure) AS day_start,
    max(departure - INTERVAL {delay}) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS watermark
FROM flights;

CREATE VIEW judged AS
SELECT *,
    coalesce(hour_start + INTERVAL 1 HOUR - INTERVAL 1 MILLISECOND <= watermark, FALSE) AS is_late_for_hour,
    coalesce(day_start + INTERVAL 1 DAY - INTERVAL 1 MILLISECOND <= watermark, FALSE) AS is_late_for_day
FROM marked;

CREATE VIEW hourly AS
SELECT origin, hour_start AS window_start, count(*) AS departures,
    count(*) FILTER (dep_time IS NULL) AS cancelled, avg(dep_delay) AS mean_delay, max(dep_delay) AS worst_delay
FROM judged WHERE NOT is_late_for_hour GROUP BY origin, hour_start;

CREATE VIEW hourly_with_weather AS
SELECT f.*, w.temp, w.wind_speed, w.precip
FROM hourly AS f
LEFT JOIN weather AS w ON f.origin = w.origin AND f.window_start = date_trunc('hour', w.observed);

CREATE VIEW worst_carriers AS
SELECT window_start, carrier, mean_delay, departures,
    row_number() OVER (PARTITION BY window_start ORDER BY mean_delay DESC NULLS LAST, carrier) AS place
FROM (
    SELECT day_start AS window_start, carrier, avg(dep_delay) AS mean_delay, count(*) AS departures
    FROM judged WHERE NOT is_late_for_day GROUP BY carrier, day_start)
QUALIFY place <= 3;
"""
LATEST_HOURS = """
SELECT origin, strftime(window_start, '%Y-%m-%d %H:%M:%S.%g'), departures, cancelled, round(mean_delay, 1) AS mean, temp,
    wind_speed, precip
FROM hourly_with_weather WHERE departures >= 5 ORDER BY mean DESC LIMIT 8
"""
WORST_CARRIERS = """
SELECT carrier, count(*) AS days_among_worst, round(avg(mean_delay), 1)
FROM worst_carriers GROUP BY carrier ORDER BY days_among_worst DESC, carrier LIMIT 8
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """Where the script ran, and what it said."""

    directory: Path
    printed: list[dict[str, object]]
    words: str

    def files(self, name: str) -> list[Row]:
        return rows_of(pq.read_table(self.directory / "out" / name))


DELAY, SHORT_DELAY = "'1' DAY", "'3' HOUR"


@pytest.fixture(scope="module", params=[DELAY, SHORT_DELAY], ids=["as it is", "short delay"])
def delay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, delay: str) -> Run:
    directory = tmp_path_factory.mktemp("getting_started")
    shutil.copytree(ROOT / "queries", directory / "queries")
    script = directory / "queries" / "getting_started.sql"
    script.write_text(
        script.read_text().replace(f"departure - INTERVAL {DELAY}", f"departure - INTERVAL {delay}")
    )
    done = sqlstream("run", "--format", "json", "queries/getting_started.sql", cwd=directory)
    assert done.returncode == 0, done.stderr
    return Run(directory, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


@pytest.fixture(scope="module")
def batch(delay: str) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(VIEWS.format(data=ROOT / "queries" / "data", delay=delay))
        yield connection


def test_hours_with_weather_have_the_batch_answer(run: Run, batch: duckdb.DuckDBPyConnection) -> None:
    assert_same_rows(
        run.files("hourly_with_weather"), batch.sql("SELECT * FROM hourly_with_weather").fetchall()
    )


def test_worst_carriers_have_the_batch_answer(run: Run, batch: duckdb.DuckDBPyConnection) -> None:
    assert_same_rows(run.files("worst_carriers"), batch.sql("SELECT * FROM worst_carriers").fetchall())


def test_late_rows_are_those_that_the_watermark_had_passed(
    run: Run, batch: duckdb.DuckDBPyConnection, delay: str
) -> None:
    hour, day, flights = batch.sql(
        "SELECT count(*) FILTER (is_late_for_hour), count(*) FILTER (is_late_for_day), count(*) FROM judged"
    ).fetchall()[0]
    assert (hour > 0, day > 0) == (delay == SHORT_DELAY, delay == SHORT_DELAY)
    assert ("late rows were dropped" in run.words) == (delay == SHORT_DELAY)
    found = re.search(r"read ([\d,]+) rows, wrote ([\d,]+), late ([\d,]+), rejected 0", run.words)
    assert found is not None, run.words
    read, written, late = (int(n.replace(",", "")) for n in found.groups())
    weather = batch.sql("SELECT count(*) FROM weather").fetchall()[0][0]
    assert read == flights + weather
    assert late == hour + day
    assert written == len(run.files("hourly_with_weather")) + len(run.files("worst_carriers"))


def test_the_printed_tables_have_the_batch_answer(run: Run, batch: duckdb.DuckDBPyConnection) -> None:
    hours, carriers = batch.sql(LATEST_HOURS).fetchall(), batch.sql(WORST_CARRIERS).fetchall()
    printed = [tuple(row.values()) for row in run.printed]
    assert_same_rows(printed, hours + carriers, is_ordered=True)
