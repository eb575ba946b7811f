"""SQL for the streaming jobs of a Spark cluster, and its runs by the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

from command_harness import ROOT, SQLSTREAM, environment

RUN_S = 280
SUMS = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100000', 'rows-per-second' = '10000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000');
SELECT n % 3 AS k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY n % 3;
"""
SUMS_ROW = "33334 | 1666716667"
"""A part of one of the rows of SUMS."""

ENDLESS = """
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');
CREATE TABLE sums (k BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO sums SELECT n % 7, SUM(n) FROM ticks GROUP BY n % 7;
"""
LOCAL = {"execution.target": "local"}


def on_spark(**settings: str) -> dict[str, str]:
    """Settings of jobs with two TaskManagers in a Spark cluster."""
    return {"execution.target": "spark", "parallelism.default": "2", **settings}


def nexmark(query: str, events: int = 200_000) -> str:
    """The query of a file, over that many events, with its rows as the result."""
    text = (ROOT / "queries" / "nexmark" / f"{query}.sql").read_text()
    text = text.replace("'nexmark.events' = '1000000'", f"'nexmark.events' = '{events}'")
    definitions, _, select = text.partition(f"INSERT INTO nexmark_{query}\n")
    assert select
    return definitions.replace("CREATE TABLE bid", "DROP TABLE IF EXISTS bid;\nCREATE TABLE bid") + select


def write_settings(config: dict[str, str], directory: Path) -> Path:
    """A file, as some settings are secrets."""
    file = directory / "settings.yaml"
    file.touch(0o600)
    file.write_text("".join(f"{key}: '{value}'\n" for key, value in config.items()))
    return file


def run_command(config: dict[str, str], directory: Path, sql: str, seen_as: Path | None = None) -> list[str]:
    """`sqlstream run` of a script with these settings, both in files of `directory`, which the command sees as `seen_as`."""
    seen_as = seen_as or directory
    file = write_settings(config, directory)
    (directory / "script.sql").write_text(sql)
    return [*SQLSTREAM, "run", "--quiet", "--config", str(seen_as / file.name), str(seen_as / "script.sql")]


def run(config: dict[str, str], directory: Path, sql: str) -> subprocess.CompletedProcess[str]:
    return run_words(run_command(config, directory, sql), directory)


def run_words(words: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def rows(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of all results, and of what is said of late rows."""
    assert result.returncode == 0, result.stderr
    return sorted([*result.stdout.splitlines(), *result.stderr.splitlines()])
