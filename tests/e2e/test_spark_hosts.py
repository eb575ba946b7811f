"""Spark on several hosts: batch statements and streaming jobs on workers of other networks, and hosts that are cut off."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trustme
from command_harness import ROOT, environment
from server_harness import RunningServer
from spark_harness.hosts import SHARED, Hosts, why_there_are_no_hosts
from spark_harness.jobs import (
    ENDLESS,
    LOCAL,
    SUMS,
    SUMS_ROW,
    nexmark,
    on_spark,
    rows,
    run_command,
    run_words,
    write_settings,
)
from spark_harness.processes import EXECUTOR, FAST_JVM, TASK_MANAGER, is_gone, is_of, wait_until
from spark_harness.standalone import StandaloneCluster

WHY_NOT = why_there_are_no_hosts()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(WHY_NOT != "", reason=WHY_NOT),
]

CLIENT, WORKERS = "client", ("one", "two")
NAMES = ("head", *WORKERS, CLIENT)
FILES_ARE_SHARED = {"execution.files-are-shared": "true"}
HEARTBEAT_S = 6


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Each has a certificate of its own, for its name and address, under the same path."""
    authority = trustme.CA()
    with Hosts(tmp_path_factory.mktemp("hosts"), *NAMES) as made:
        for host in made:
            certificate = authority.issue_cert(host.name, host.address)
            certificate.cert_chain_pems[0].write_to_path(str(host.own_tmp / "cert.pem"))
            certificate.private_key_pem.write_to_path(str(host.own_tmp / "key.pem"))
            authority.cert_pem.write_to_path(str(host.own_tmp / "ca.pem"))
        yield made


@pytest.fixture(scope="module")
def cluster(hosts: Hosts) -> Iterator[StandaloneCluster]:
    """The master on one host, and a worker of one core on each of two others."""
    directory = hosts.shared / "cluster"
    directory.mkdir()
    places = [hosts["head"], *(hosts[name] for name in WORKERS)]
    with StandaloneCluster(directory, places, seen_as=SHARED / "cluster") as running:
        yield running


@pytest.fixture
def shared(hosts: Hosts) -> Path:
    """A directory that all hosts see."""
    return Path(tempfile.mkdtemp(dir=hosts.shared))


def subdirectory(shared: Path, name: str) -> Path:
    """One in which scripts find the files of queries/."""
    directory = shared / name
    directory.mkdir()
    (directory / "queries").symlink_to(ROOT / "queries")
    return directory


def seen(hosts: Hosts, directory: Path) -> Path:
    """A shared directory as hosts see it."""
    return SHARED / directory.relative_to(hosts.shared)


def batch(cluster: StandaloneCluster) -> dict[str, str]:
    """Rows of a query leave executors as they are, so Spark's connections are not encrypted either."""
    return {
        "execution.runtime-mode": "BATCH",
        "execution.batch.engine": "spark",
        "spark.driver.host": CLIENT,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": FAST_JVM,
        "spark.executor.extraJavaOptions": FAST_JVM,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "4",
        **cluster.settings,
    }


def target(cluster: StandaloneCluster, **more: str) -> dict[str, str]:
    return on_spark(
        **{
            "jobmanager.rpc.address": CLIENT,
            "jobmanager.bind-host": "0.0.0.0",
            "taskmanager.bind-host": "0.0.0.0",
            "security.ssl.internal.enabled": "true",
            "security.ssl.internal.certificate-file": "/tmp/cert.pem",
            "security.ssl.internal.key-file": "/tmp/key.pem",
            "security.ssl.internal.ca-file": "/tmp/ca.pem",
        },
        **cluster.settings,
        **more,
    )


def command(hosts: Hosts, config: dict[str, str], directory: Path, sql: str) -> list[str]:
    """A command of the client's host, in a shared directory."""
    seen_as = seen(hosts, directory)
    return hosts[CLIENT].within(seen_as, run_command(config, directory, sql, seen_as))


def run(hosts: Hosts, config: dict[str, str], directory: Path, sql: str) -> subprocess.CompletedProcess[str]:
    return run_words(command(hosts, config, directory, sql), directory)


def on_hosts(hosts: Hosts, names: tuple[str, ...], words: str) -> list[psutil.Process]:
    return [p for name in names for p in hosts[name].processes() if is_of(p, words)]


# --- batch statements


def test_a_batch_query_and_an_insert_have_the_rows_of_a_stream_here(
    hosts: Hosts, cluster: StandaloneCluster, shared: Path
) -> None:
    definitions, select, query = nexmark("q5").partition("SELECT AuctionBids")
    script = f"""{definitions} CREATE TABLE found (auction BIGINT, num BIGINT)
          WITH ('connector' = 'filesystem', 'path' = 'found', 'format' = 'parquet');
        {select}{query}
        INSERT INTO found {select}{query}
        SELECT COUNT(*) AS n, SUM(num) AS s FROM found;"""
    here = run(hosts, LOCAL, subdirectory(shared, "here"), script)
    there = run(hosts, {**batch(cluster), **FILES_ARE_SHARED}, subdirectory(shared, "there"), script)
    assert len(rows(here)) > 10
    assert rows(there) == rows(here)
    # The path is relative: it is the command's directory, and not those of executors.
    assert len(list((shared / "there" / "found").glob("*.parquet"))) > 0
    assert [len(cluster.executor_logs(name)) for name in ("worker-0", "worker-1")] == [1, 1]


def test_files_of_one_host_are_refused_until_they_are_said_to_be_shared(
    hosts: Hosts, cluster: StandaloneCluster, shared: Path
) -> None:
    (shared / "numbers.csv").write_text("1\n2\n39\n")
    script = """CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'numbers.csv', 'format' = 'csv');
        SELECT SUM(n) AS s FROM numbers;"""
    for config in (batch(cluster), target(cluster)):
        refused = run(hosts, config, shared, script)
        assert refused.returncode != 0
        assert 'error[SS4057]: table "numbers" has files of this machine' in refused.stderr
    told = run(hosts, {**batch(cluster), **FILES_ARE_SHARED}, shared, script)
    assert "| 42 |" in "".join(rows(told))


def test_a_server_pages_through_a_result_of_the_cluster(
    hosts: Hosts, cluster: StandaloneCluster, shared: Path
) -> None:
    client = hosts[CLIENT]
    write_settings(batch(cluster), shared)
    settings = str(seen(hosts, shared) / "settings.yaml")
    with (
        client.network(),
        RunningServer(
            client.own_tmp / "data",
            "--data-dir",
            "/tmp/data",
            "--config",
            settings,
            prefix=client.command([]),
        ) as server,
    ):
        session = server.open_session()
        server.execute(
            session,
            "CREATE TABLE g (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '60000', 'fields.id.kind' ="
            " 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '60000', 'rows-per-second' = '100000000')",
        )
        answer = server.submit(session, "SELECT id FROM g ORDER BY id DESC")
        path = f"/v3/sessions/{session}/operations/{answer.json()['operationHandle']}/result/0?rowFormat=JSON"
        pages: list[list[int]] = []
        while path:
            page = server.request("GET", path).json()
            assert "results" in page or page["resultType"] == "NOT_READY", json.dumps(page)[:1000]
            if page["resultType"] != "NOT_READY" and page["results"]["data"]:
                pages.append([int(row["fields"][0]) for row in page["results"]["data"]])
            path = page.get("nextResultUri", "")
        assert len(pages) > 1
        assert [n for page in pages for n in page] == list(range(60_000, 0, -1))


# --- streaming jobs


def test_the_demo_and_nexmark_have_the_rows_of_one_host(
    hosts: Hosts, cluster: StandaloneCluster, shared: Path
) -> None:
    script = (ROOT / "queries" / "getting_started.sql").read_text() + nexmark("q5")
    config = {**LOCAL, "parallelism.default": "2"}
    here = run(hosts, config, subdirectory(shared, "here"), script)
    config = {**target(cluster), **FILES_ARE_SHARED}
    there = run(hosts, config, subdirectory(shared, "there"), script)
    assert len(rows(here)) > 30
    assert rows(there) == rows(here)


@pytest.mark.parametrize("cut", ["two", CLIENT])
def test_a_job_fails_with_the_heartbeat_of_a_host_that_is_cut_off_and_leaves_nothing(
    cut: str, hosts: Hosts, cluster: StandaloneCluster, shared: Path
) -> None:
    config = target(
        cluster,
        **{
            "heartbeat.interval": "500 ms",
            "heartbeat.timeout": f"{HEARTBEAT_S} s",
            "taskmanager.registration.timeout": "5 s",
        },
    )
    output, errors = shared / "output", shared / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        running = subprocess.Popen(
            command(hosts, config, shared, ENDLESS.replace("blackhole", "print")),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(),
        )
    wait_until(lambda: output.stat().st_size or running.poll() is not None)
    assert [len(on_hosts(hosts, (name,), TASK_MANAGER)) for name in WORKERS] == [1, 1], errors.read_text()
    ours = on_hosts(hosts, WORKERS, EXECUTOR) + on_hosts(hosts, WORKERS, TASK_MANAGER)
    with cut_off(hosts, cut):
        # Spark alone would have waited two minutes.
        assert running.wait(HEARTBEAT_S + 50) == 1
        assert "error[SS6001]: TaskManager " in errors.read_text()
        assert f"sent nothing for {HEARTBEAT_S} s" in errors.read_text()
        if cut != CLIENT:
            assert f"at grpc+tls://{hosts[cut].address}:" in errors.read_text()
        # Those that no JobManager reaches end by themselves.
        wait_until(lambda: on_hosts(hosts, WORKERS, TASK_MANAGER) == [], 90)
    wait_until(lambda: all(is_gone(p) for p in ours), 180)
    # The cluster may have begun another executor for the application before it was told of the application's end.
    wait_until(lambda: on_hosts(hosts, NAMES, EXECUTOR) == [], 60)
    # It needs the cores of both workers.
    assert any(SUMS_ROW in line for line in rows(run(hosts, target(cluster), shared, SUMS)))


@contextlib.contextmanager
def cut_off(hosts: Hosts, name: str) -> Iterator[None]:
    hosts.cut(name)
    try:
        yield
    finally:
        hosts.mend(name)
