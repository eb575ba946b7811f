"""The measurement of the engines beside each other, as a developer runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benches.batch import EngineOrder
from command_harness import ROOT, environment
from spark_harness.engine import SMALL

TIMEOUT_S = 240
SPARK_TIMEOUT_S = 600


def bench(*words: str, timeout_s: int = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tests/benches/main.py", "batch", "--runs", "1", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--queries", "q99"), 'no query "q99"'),
        (("--engines", "flink"), "choose of stream, duckdb, spark"),
        (("--queries", "hourly", "--flights", "no/such/folder"), "--flights"),
    ],
)
def test_what_is_not_there_is_refused(words: tuple[str, ...], said: str) -> None:
    done = bench(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_stream_and_duckdb_give_the_same_answers_and_what_is_refused_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = ("--engines", "stream,duckdb", "--queries", "q3,q12,carriers", "--events", "20,000")
    done = bench(*words, "--json", "-", "--markdown", str(page))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(e["engine"], e["error"]) for e in found["engines"]] == [("stream", None), ("duckdb", None)]
    figures = {(f["query"], f["engine"]): f for f in found["figures"]}
    assert list(figures) == [(q, e) for q in ("q3", "q12", "carriers") for e in ("stream", "duckdb")]
    refused = figures.pop(("q12", "duckdb"))
    assert refused["error"]["code"] == "SS3301"
    assert "q12      duckdb    refused: PROCTIME" in done.stderr
    assert {f["error"] for f in figures.values()} == {None}
    assert min(f[name] for f in figures.values() for name in ("wall_s", "cpu_s", "rows")) > 0
    assert min(f["peak_rss_bytes"] for f in figures.values()) > 50 * 2**20
    assert [key for key, f in figures.items() if f["first_s"]] == [("q3", "stream"), ("q3", "duckdb")]
    assert {key: f["is_same_answer"] for key, f in figures.items()} == {
        ("q3", "stream"): None,
        ("q3", "duckdb"): True,
        ("q12", "stream"): None,
        ("carriers", "stream"): None,
        ("carriers", "duckdb"): True,
    }
    # Each of 14 days has three.
    assert figures["carriers", "duckdb"]["rows"] == 42
    assert page.read_text().startswith("| query | result rows | wall s, stream | wall s, duckdb |")


def test_an_engine_that_does_not_start_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    words = ("--engines", "spark,duckdb", "--queries", "q0", "--events", "1,000", "--json", str(out))
    done = bench(*words, "--set", "spark.master=spark://127.0.0.1:1")
    assert done.returncode == 1
    assert "spark: did not start: could not reach the Spark master" in done.stdout
    found = json.loads(out.read_text())
    assert [e["error"] and e["error"]["code"] for e in found["engines"]] == ["SS5112", None]
    assert [(f["engine"], f["rows"]) for f in found["figures"]] == [("duckdb", 920)]


def test_the_process_of_an_engine_ends_when_nobody_asks_further(tmp_path: Path) -> None:
    order = EngineOrder("duckdb", 10**12, 1_000, 1, str(tmp_path), {})
    done = subprocess.run(
        [sys.executable, "-m", "benches.batch_process", msgspec.json.encode(order).decode()],
        # A query of hours.
        input="q5\n",
        cwd=tmp_path,
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), str(ROOT)])),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 1


@pytest.mark.slow
@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_spark_gives_the_same_answers_and_its_start_and_first_query_stand_apart(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    words = ("--queries", "q5,q12,hourly", "--events", "20,000", "--json", str(out))
    settings = (word for key, value in SMALL.items() for word in ("--set", f"{key}={value}"))
    done = bench(*words, *settings, timeout_s=SPARK_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert [e["engine"] for e in found["engines"] if e["error"] is None] == ["stream", "duckdb", "spark"]
    assert found["engines"][2]["start_s"] > 0.5
    spark = {f["query"]: f for f in found["figures"] if f["engine"] == "spark"}
    assert spark.pop("q12")["error"]["code"] == "SS3301"
    assert {f["is_same_answer"] for f in spark.values()} == {True}
    assert spark["q5"]["first_s"] > spark["q5"]["wall_s"]
    # The JVM's memory is in the figure.
    assert spark["q5"]["peak_rss_bytes"] > 400 * 2**20
