"""What a short command loads, and that jobs over little data run where they are over soonest, with the same outcome."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from command_harness import ROOT, SQLSTREAM, TIMEOUT_S, environment, run_to_end, sqlstream

HEAVY = {"numpy", "pyarrow", "sqlglot", "duckdb", "numba", "llvmlite"}
CHILDREN = ("--set", "sqlstream.in-process.max-input-size=0")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A table of 1,000 rows in three files."""
    path = tmp_path / "rows"
    path.mkdir()
    for file in range(3):
        lines = [f"k{n % 7},{n}\n" for n in range(1000) if n % 3 == file]
        (path / f"{file}.csv").write_text("".join(lines))
    return path


def table(path: Path) -> str:
    return (
        "CREATE TABLE t (k STRING, v BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');\n"
    )


def loaded(*words: str, stdin: str = "") -> set[str]:
    """Modules that the command imports, or that a library's lazy import makes it import."""
    command = [sys.executable, "-X", "importtime", "-m", "sqlstream", *words]
    done = run_to_end(command, stdin=stdin)
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip() for line in lines}


def children_of(words: tuple[str, ...], script: str) -> bool:
    """Whether the command started processes, as a trace of its imports tells."""
    return "sqlstream.runtime.providers.local" in loaded("run", *words, "-", stdin=script)


@pytest.mark.parametrize("words", [("version",), ("--version",), ("--help",)])
def test_help_and_version_load_no_library(words: tuple[str, ...]) -> None:
    assert not loaded(*words) & HEAVY


def test_a_literal_is_answered_without_a_cluster() -> None:
    modules = loaded("run", "-", stdin="SELECT 1;")
    assert not modules & {
        "numba",
        "llvmlite",
        "duckdb",
        "pyarrow._flight",
        "sqlstream.runtime.embedded",
        "sqlstream.runtime.operators.calc",
    }
    assert not modules & {
        "sqlstream.runtime.connectors.files.filesystem",
        "sqlstream.runtime.connectors.generators.nexmark",
        "sqlstream.runtime.formats.csv",
    }


STARTED = """\
import sys, threading
sys.addaudithook(lambda event, _: print("process", file=sys.stderr)
                 if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") else None)
sys.argv = ["sqlstream", "run", "--quiet", *sys.argv[1:]]
begin = threading.Thread.start
threading.Thread.start = lambda thread: (print("thread", file=sys.stderr), begin(thread))
from sqlstream.client.main import main
sys.exit(main())
"""


def started(*words: str, stdin: str) -> set[str]:
    """What `sqlstream run` starts: threads, processes."""
    done = run_to_end([sys.executable, "-c", STARTED, *words, "-"], stdin=stdin)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines())


def test_nothing_starts_before_a_job_needs_it(rows: Path) -> None:
    statements = """
        SELECT 1;
        SET 'parallelism.default' = '2';
        CREATE DATABASE d; USE d; SHOW TABLES; USE default_database;
        CREATE VIEW v AS SELECT k FROM default_database.t;
        SHOW TABLES; SHOW CREATE VIEW v; DESCRIBE v; SHOW FUNCTIONS; SHOW JOBS;
        EXPLAIN SELECT k, COUNT(*) FROM v GROUP BY k;
        DROP VIEW v; DROP DATABASE d;
        """
    for words in ((), ("--task-managers", "2")):
        assert started(*words, stdin=table(rows) + statements) == set()
    # A table that is too large for this process may be read by a job: what is started for it ends with the command, or by a
    # thread when no job asks for it.
    assert started(*CHILDREN, stdin=table(rows) + statements) == {"process", "thread"}
    count = table(rows) + "SELECT COUNT(*) FROM t;"
    assert started(stdin=count) == {"thread"}
    assert started(*CHILDREN, stdin=count) == {"thread", "process"}


def test_a_small_aggregate_loads_neither_compiler_nor_network_nor_other_formats(rows: Path) -> None:
    script = table(rows) + "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k;"
    modules = loaded("run", "-", stdin=script)
    assert not modules & {
        "numba",
        "duckdb",
        "pyarrow._flight",
        "pyarrow._parquet",
        "pyarrow._dataset",
        "psutil",
    }
    assert not modules & {
        "sqlstream.runtime.connectors.generators.nexmark",
        "sqlstream.runtime.formats.json",
        "sqlstream.runtime.providers.local",
    }


def test_no_module_loads_pandas_or_a_compiler_as_it_is_imported() -> None:
    """Arrow loads pandas with the first list that it converts: constants of a module are no arrays."""
    rooms = ("formats", "connectors", "evaluate", "operators", "state")
    rooms = (*(f"runtime/{room}" for room in rooms), "client/commands", "client/gateway", "client/rendering")
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    modules = [".".join(("sqlstream", *path.relative_to(ROOT).with_suffix("").parts)) for path in files]
    code = f"import importlib, sys\nfor name in {modules}: importlib.import_module(name)\nprint(*sys.modules)"
    done = run_to_end([sys.executable, "-P", "-c", code])
    assert not {"pandas", "numba", "pyspark", "polars"} & {*done.stdout.split()}, done.stderr


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_a_small_job_has_the_same_rows_in_the_process_and_in_children(rows: Path, parallelism: int) -> None:
    script = table(rows) + (
        f"SET 'parallelism.default' = '{parallelism}';"
        "SELECT k, COUNT(*) AS c, SUM(v) AS s FROM t GROUP BY k ORDER BY k;"
    )
    here = sqlstream("run", "--format", "csv", "-", stdin=script)
    children = sqlstream("run", "--format", "csv", *CHILDREN, "-", stdin=script)
    assert (here.returncode, here.stdout) == (children.returncode, children.stdout)
    assert here.stdout.splitlines()[1] == "k0,143,71071"


@pytest.mark.parametrize("words", [CHILDREN, ("--task-managers", "1"), ("--set", "parallelism.default=5")])
def test_children_run_what_is_asked_of_them(rows: Path, words: tuple[str, ...]) -> None:
    script = table(rows) + "SELECT COUNT(*) FROM t;"
    assert not children_of((), script)
    assert children_of(words, script)


def test_an_insert_in_the_process_commits_and_a_failed_one_leaves_nothing(rows: Path, tmp_path: Path) -> None:
    sink = (
        "CREATE TABLE s (v BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'csv');\n"
    )
    done = sqlstream("run", "-", stdin=table(rows) + sink + "INSERT INTO s SELECT v FROM t;")
    assert done.returncode == 0
    written = "".join(f.read_text() for f in (tmp_path / "out").iterdir())
    assert sorted(map(int, written.split())) == list(range(1000))
    before = sorted((tmp_path / "out").iterdir())
    failed = sqlstream("run", "-", stdin=table(rows) + sink + "INSERT INTO s SELECT 1 / (v - 500) FROM t;")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error[SS5101]: division by zero")
    assert sorted((tmp_path / "out").iterdir()) == before


def test_ctrl_c_ends_a_job_in_the_process_at_once(script: Callable[[str], str], tmp_path: Path) -> None:
    text = (
        "CREATE TABLE slow (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '3000', 'rows-per-second' = '1');\n"
        "CREATE TABLE files (n BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'out'}', 'format' = 'csv');\n"
        "INSERT INTO files SELECT n FROM slow;"
    )
    command = [*SQLSTREAM, "run", script(text)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not [path for path in tmp_path.rglob("*") if path.suffix != ".sql"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        assert psutil.Process(process.pid).children() == []
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=TIMEOUT_S)[1].endswith("interrupted\n")
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
    assert [f for f in tmp_path.rglob("*") if f.is_file() and f.suffix != ".sql"] == []


READ = """\
import sys
sys.addaudithook(lambda event, words: print("entry points", file=sys.stderr)
                 if event == "open" and str(words[0]).endswith("entry_points.txt") else None)
sys.argv = ["sqlstream", "run", "--quiet", "-"]
from sqlstream.client.main import main
sys.exit(main())
"""


def test_entry_points_of_other_packages_are_read_when_a_name_is_not_ours(rows: Path) -> None:
    def reads(text: str) -> bool:
        done = run_to_end([sys.executable, "-c", READ], stdin=text)
        assert done.returncode == 0, done.stderr
        return "entry points" in done.stderr

    assert not reads(table(rows) + "SELECT UPPER(k) AS k, COUNT(*) FROM t GROUP BY UPPER(k);")
    assert reads("SHOW CONNECTORS;")
