"""Connectors, formats, catalogs and functions of another package: installed beside sqlstream, and named in SQL."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command_harness import ROOT, environment, sqlstream
from installed_packages import GUEST, install, write_entry_points
from server_harness import RunningServer

LEDGER = "CREATE TABLE book (n BIGINT, name STRING) WITH ('connector' = 'ledger', 'path' = 'book'{more});\n"
IN_CHILDREN = ("--set", "sqlstream.in-process.max-input-size=0", "--set", "parallelism.default=2")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return install(GUEST, tmp_path / "packages")


def run(text: str, packages: Path, *words: str) -> CompletedProcess[str]:
    """`sqlstream run` beside the packages, in the directory above them."""
    around = environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(packages)]))
    return sqlstream("run", *words, "-", stdin=text, env=around, cwd=packages.parent)


def rows(done: CompletedProcess[str]) -> list[dict[str, object]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_a_package_brings_is_used_by_name(packages: Path) -> None:
    script = (
        LEDGER.format(more=", 'pages' = '2'")
        + """
        INSERT INTO book VALUES (1, 'a'), (2, 'b'), (CAST(NULL AS BIGINT), 'c');
        INSERT INTO book VALUES (40, 'd');
        CREATE TABLE lines (n BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = 'lines', 'format' = 'pipes');
        INSERT INTO lines SELECT n, name FROM book;
        CREATE CATALOG shelf WITH ('type' = 'shelf', 'databases' = 'top, bottom');
        CREATE VIEW shelf.bottom.summed AS SELECT SUM(n) AS total, spread(n) AS width FROM lines;
        SELECT total, width, Cents(CAST('1.25' AS DECIMAL(18, 2))) AS money FROM shelf.bottom.summed;
    """
    )
    found = rows(run(script, packages, "--format", "json", "--quiet"))
    assert found == [{"total": 43, "width": 39, "money": 125}]
    assert sorted(p.suffix for p in (packages.parent / "book").iterdir() if p.is_file()) == [".arrow"] * 3
    assert "|c\n" in "".join(p.read_text() for p in (packages.parent / "lines").glob("*.pipes"))


def test_the_code_reaches_task_managers_that_are_other_processes(packages: Path) -> None:
    script = (
        LEDGER.format(more="")
        + """
        INSERT INTO book VALUES (1, 'a'), (2, 'b'), (5, 'c');
        SELECT name, spread(n * cents(CAST('0.02' AS DECIMAL(18, 2)))) AS s FROM book GROUP BY name ORDER BY name;
    """
    )
    done = run(script, packages, "--format", "json", "--quiet", *IN_CHILDREN)
    assert rows(done) == [{"name": name, "s": 0} for name in "abc"]


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_both_modes_give_the_same_rows(packages: Path, mode: str) -> None:
    script = (
        f"SET 'execution.runtime-mode' = '{mode}';\n"
        + LEDGER.format(more="")
        + """
        INSERT INTO book VALUES (1, 'a'), (7, 'b');
        SELECT SUM(n) AS total, spread(n) AS width FROM book;
    """
    )
    assert rows(run(script, packages, "--format", "json", "--quiet")) == [{"total": 8, "width": 6}]


def test_jobs_wait_for_a_package_that_is_not_installed_when_their_server_starts_again(packages: Path) -> None:
    tables = (
        "numbers (n BIGINT, name STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '50')",
        f"lines (n BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{packages.parent}/l', 'format' = 'pipes')",
        f"book (n BIGINT, name STRING) WITH ('connector' = 'ledger', 'path' = '{packages.parent}/b')",
        "hole (n BIGINT) WITH ('connector' = 'blackhole')",
    )
    inserts = {
        "INSERT INTO lines SELECT n, name FROM numbers": ("RESTARTING", "SS4004"),
        "INSERT INTO book SELECT n, name FROM numbers": ("SUSPENDED", "SS4004"),
        "INSERT INTO hole SELECT cents(CAST(n AS DECIMAL(18, 2))) FROM numbers": ("RESTARTING", "SS5132"),
    }

    def started(*found: Path) -> RunningServer:
        path = os.pathsep.join(map(str, (ROOT, *found)))
        return RunningServer(packages.parent / "server", PYTHONPATH=path)

    with started(packages) as server:
        session = server.open_session()
        for table in tables:
            server.execute(session, f"CREATE TABLE {table}")
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        jobs = {server.insert(session, insert): waits for insert, waits in inserts.items()}
        for job_id in jobs:
            server.wait_until_checkpointed(job_id)
    with started() as server:
        for job_id, (status, code) in jobs.items():
            server.wait_for(job_id, status)
            (newest, *_) = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
            assert newest["exceptionName"] == code
    with started(packages) as server:
        for job_id in jobs:
            server.wait_until_checkpointed(job_id)
            assert server.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"] == 1


def test_lists_and_descriptions_have_what_packages_bring(packages: Path) -> None:
    script = """
        SHOW CONNECTORS LIKE 'led%'; SHOW FORMATS LIKE 'pip%'; SHOW FUNCTIONS LIKE 'spr%';
        DESCRIBE CONNECTOR ledger; DESCRIBE FUNCTION EXTENDED spread;
    """
    done = run(script, packages, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert {
        "ledger,TRUE,TRUE,FALSE",
        "pipes",
        "spread",
        "path,String,,TRUE,The directory.",
        "package,sqlstream-ledger 0.3.0",
        "scope,package",
    } <= set(done.stdout.splitlines())


def test_options_and_types_of_guests_are_checked_where_they_are_written(packages: Path) -> None:
    done = run(LEDGER.format(more=", 'pagse' = '1'"), packages)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'error[SS4003]: unknown option "pagse"' in done.stderr
    assert 'did you mean "pages"?' in done.stderr
    done = run(LEDGER.format(more=", 'pages' = '0'"), packages)
    assert "error[SS4002]" in done.stderr
    done = run(
        "CREATE TABLE t (d DOUBLE) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'pipes');",
        packages,
    )
    assert 'error[SS4006]: format "pipes" cannot carry column "d"' in done.stderr
    done = run("CREATE CATALOG c WITH ('type' = 'shelf');", packages)
    assert 'error[SS4005]: catalog type "shelf" needs the option "databases"' in done.stderr
    done = run("SELECT spread(1, 2) FROM (VALUES (1)) AS t(n);", packages)
    assert "error[SS2006]" in done.stderr


def test_a_misspelled_name_is_compared_with_those_of_packages(packages: Path) -> None:
    done = run("CREATE TABLE t (n INT) WITH ('connector' = 'leger');", packages)
    assert 'error[SS4004]: unknown connector "leger"' in done.stderr
    assert 'did you mean "ledger"?' in done.stderr


BROKEN = {
    "sqlstream.connectors": {
        "absent": "no_such_module:Thing",
        "old": "broken_guest:Old",
        "silent": "broken_guest:Silent",
        "other": "broken_guest:Other",
        "needy": "broken_guest.needy:Thing",
    },
    "sqlstream.functions": {"plain": "broken_guest:plain"},
}
BROKEN_CODE = """
from sqlstream.spi.connector import ConnectorDescriptor

class Old:
    sqlstream_api = 99
    descriptor = ConnectorDescriptor("old", ())

class Silent:
    descriptor = ConnectorDescriptor("silent", ())

class Other:
    sqlstream_api = 1
    descriptor = ConnectorDescriptor("another", ())

def plain(n):
    return n
"""


@pytest.mark.parametrize(
    ("name", "code", "message", "hint"),
    [
        (
            "absent",
            "SS4015",
            'connector "absent" of package broken-guest 2 cannot be imported: ModuleNotFoundError',
            "install broken-guest in each environment that runs tasks",
        ),
        (
            "needy",
            "SS4015",
            "No module named 'nowhere_to_be_found'",
            "install nowhere_to_be_found, or broken-guest",
        ),
        (
            "old",
            "SS4016",
            "is made for version 99 of sqlstream's protocols; this is version 1",
            "upgrade sqlstream,",
        ),
        ("silent", "SS4016", "says no version of sqlstream's protocols", "upgrade broken-guest,"),
        ("other", "SS4015", "has no ConnectorDescriptor of that name", "`descriptor`"),
    ],
)
def test_a_package_that_cannot_be_used_says_why(
    tmp_path: Path, name: str, code: str, message: str, hint: str
) -> None:
    packages = write_entry_points(tmp_path / "packages", "broken-guest", "2", BROKEN)
    (packages / "broken_guest").mkdir()
    (packages / "broken_guest/__init__.py").write_text(BROKEN_CODE)
    (packages / "broken_guest/needy.py").write_text("import nowhere_to_be_found\n")
    done = run(f"CREATE TABLE t (n INT) WITH ('connector' = '{name}');", packages)
    assert done.returncode == 2
    assert f"error[{code}]: " in done.stderr
    assert message in done.stderr
    assert hint in done.stderr
    assert "^" in done.stderr


def test_a_broken_package_hides_no_other_and_no_name_of_ours(packages: Path) -> None:
    names = {**BROKEN, "sqlstream.formats": {"csv": "no_such_module:Csv"}}
    write_entry_points(packages, "broken-guest", "2", names)
    done = run("SHOW CONNECTORS; SHOW FORMATS; SELECT plain(1);", packages, "--format", "csv")
    assert done.returncode == 2
    listed = done.stdout.splitlines()
    assert "ledger,TRUE,TRUE,FALSE" in listed
    assert not [line for line in listed if line.startswith(("absent", "old", "silent"))]
    assert listed.count("csv") == 1
    assert 'function "plain" of package broken-guest 2 cannot be imported' in done.stderr


def test_a_name_that_two_packages_bring_names_both(packages: Path) -> None:
    write_entry_points(packages, "rival", "1", {"sqlstream.connectors": {"ledger": "rival:Ledger"}})
    done = run(LEDGER.format(more=""), packages)
    assert done.returncode == 2
    assert (
        'error[SS4014]: several packages bring a connector "ledger": rival 1, sqlstream-ledger 0.3.0\n'
    ) in done.stderr
    assert "hint: uninstall all of them but one" in done.stderr


def test_a_users_function_of_the_name_goes_first(packages: Path) -> None:
    (packages.parent / "mine.py").write_text(
        "from sqlstream import udf\n\n@udf(result_type='INT', input_types=['INT'])\ndef cents(n):\n    return -n\n"
    )
    script = """
        CREATE FUNCTION cents AS 'mine.cents' LANGUAGE PYTHON USING FILE 'mine.py';
        SELECT cents(5) AS c;
    """
    assert rows(run(script, packages, "--format", "json", "--quiet")) == [{"c": -5}]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_code_reaches_executors_of_a_spark_cluster(packages: Path) -> None:
    """A batch query reads a table of the package, and a streaming job calls its function as well."""
    settings = [
        *("--set", "spark.master=local-cluster[2,1,1024]", "--set", "spark.executor.memory=1g"),
        *("--set", "execution.files-are-shared=true"),
    ]
    table = LEDGER.replace("'book'", f"'{packages.parent}/book'").format(more="")
    written = table + "INSERT INTO book VALUES (1, 'a'), (2, 'b'), (40, 'c');\n"
    batch = (
        written
        + """
        SET 'execution.runtime-mode' = 'BATCH';
        SET 'execution.batch.engine' = 'spark';
        SELECT SUM(n) AS total FROM book;
    """
    )
    found = run(batch, packages, "--format", "json", "--quiet", *settings)
    assert rows(found) == [{"total": 43}]
    stream = table + "SELECT SUM(cents(CAST(n AS DECIMAL(18, 2)))) AS total FROM book;"
    found = run(stream, packages, "--format", "json", "--quiet", "--set", "execution.target=spark", *settings)
    assert rows(found) == [{"total": 4300}]
