"""Spark Connect servers that go away, do not answer, have another version, or are reached by TLS; and clients without Java."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import trustme
from command_harness import ROOT, environment
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from server_harness import RunningServer
from spark_connect_harness import ConnectServer
from spark_harness.engine import RecordedRun, plan_of
from spark_harness.processes import descendants, wait_until

from sqlstream import types as sql
from sqlstream.errors import ExternalError, JobError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.connect.address import REMOTE
from sqlstream.runtime.batch.spark.engine import SparkEngine
from sqlstream.schema import Schema

pytestmark = pytest.mark.timeout(600)

LONG_SQL = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE a.id * b.id % 7919 = 3"
NUMBERS = Schema.of(("id", sql.BIGINT))


@pytest.fixture
def engine() -> Iterator[SparkEngine]:
    engine = SparkEngine()
    yield engine
    engine.close()


def rows(engine: SparkEngine, url: str, query: str = "SELECT 1 AS n") -> list[tuple[object, ...]]:
    run = RecordedRun()
    engine.run(plan_of(query, config={REMOTE: url}), run)
    return run.rows()


class Running:
    """A statement on a thread of its own, begun and at work at the server."""

    def __init__(self, engine: SparkEngine, url: str) -> None:
        self._engine = engine
        self._plan = plan_of(LONG_SQL, config={REMOTE: url})
        self._run = RecordedRun()
        self.errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._execute, daemon=True)
        self._thread.start()
        wait_until(lambda: any(total > 0 for _, total in self._run.reports), 120)

    def _execute(self) -> None:
        try:
            self._engine.run(self._plan, self._run)
        except BaseException as error:
            self.errors.append(error)

    def cancel(self) -> None:
        self._engine.cancel(self._plan.job_id)

    def wait(self) -> None:
        self._thread.join(240)
        assert not self._thread.is_alive()


@pytest.mark.slow
def test_a_server_that_dies_fails_its_statements_and_the_next_one_finds_its_successor(
    tmp_path: Path, engine: SparkEngine
) -> None:
    with ConnectServer(tmp_path) as server:
        assert rows(engine, server.url) == [(1,)]
        running = Running(engine, server.url)
        port = server.port
        server.kill()
        running.wait()
        (error,) = running.errors
        assert isinstance(error, ExternalError)
        assert error.code == "SS5117"
        assert f"127.0.0.1:{port}" in error.message
        with pytest.raises(ExternalError) as gone:
            rows(engine, server.url)
        assert gone.value.code == "SS5112"
        server.stop()
        server.start(port)
        assert rows(engine, server.url) == [(1,)]


@pytest.mark.slow
def test_a_statement_at_a_server_that_hangs_is_cancelled(tmp_path: Path, engine: SparkEngine) -> None:
    with ConnectServer(tmp_path) as server:
        running = Running(engine, server.url)
        server.pause()
        running.cancel()
        # The server still hangs.
        running.wait()
        assert [type(error) for error in running.errors] == [BatchCancelled]
        server.resume()
        # The session that did not obey is gone, and its query with it.
        assert rows(engine, server.url) == [(1,)]


@pytest.mark.slow
def test_a_result_larger_than_the_server_takes_says_what_to_do(tmp_path: Path, engine: SparkEngine) -> None:
    with ConnectServer(tmp_path, spark__driver__maxResultSize="1m") as server:
        with pytest.raises(JobError) as caught:
            rows(engine, server.url, "SELECT id AS n FROM range(0, 2000000, 1, 8)")
        assert caught.value.code == "SS6068"
        assert "INSERT" in caught.value.hint


@pytest.mark.slow
def test_a_client_that_reads_slowly_holds_a_few_megabytes_of_the_result(
    tmp_path: Path, engine: SparkEngine
) -> None:
    import pyarrow as pa

    held: list[int] = []

    def slowly(batch: pa.RecordBatch) -> None:
        if len(held) < 20:
            time.sleep(0.2)
        held.append(pa.total_allocated_bytes())

    run = RecordedRun(slowly, keeps_rows=False)
    query = "SELECT id, id * 7 AS b, id * 11 AS c, id * 13 AS d FROM range(0, 6000000, 1, 4)"
    schema = Schema.of(*((name, sql.BIGINT) for name in ("id", "b", "c", "d")))
    with ConnectServer(tmp_path) as server:
        engine.run(plan_of(query, config={REMOTE: server.url}, schema=schema), run)
    assert run.row_count == 6_000_000
    # 192 MB of rows, of which 16 MiB wait in memory.
    assert max(held) < 100_000_000


@pytest.mark.slow
def test_what_the_server_s_owner_has_set_does_not_change_what_the_sql_means(
    tmp_path: Path, engine: SparkEngine
) -> None:
    settings = {"spark__sql__legacy__setopsPrecedence__enabled": "true", "spark__sql__ansi__enabled": "true"}
    with ConnectServer(tmp_path, **settings) as server:
        query = "SELECT id AS n FROM ((SELECT 1 AS id) UNION (SELECT 2) INTERSECT (SELECT 2)) ORDER BY n"
        assert rows(engine, server.url, query) == [(1,), (2,)]
        assert rows(engine, server.url, "SELECT CAST(9223372036854775807 + 1L AS BIGINT) AS n") == [
            (-(2**63),)
        ]


class OlderServer(base_pb2_grpc.SparkConnectServiceServicer):
    """Answers as Spark 3.5 does when it is asked for its version."""

    def AnalyzePlan(  # noqa: N802 (Spark's name)
        self, request: base_pb2.AnalyzePlanRequest, context: object
    ) -> base_pb2.AnalyzePlanResponse:
        answer = base_pb2.AnalyzePlanResponse(session_id=request.session_id, server_side_session_id="1")
        answer.spark_version.version = "3.5.1"
        return answer


def test_a_server_of_another_release_is_refused(engine: SparkEngine) -> None:
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(OlderServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(ExternalError) as caught:
            rows(engine, f"sc://127.0.0.1:{port}")
    finally:
        server.stop(0)
    assert caught.value.code == "SS5119"
    assert "has Spark 3.5.1" in caught.value.message


@pytest.mark.slow
def test_something_else_that_listens_there_is_said(engine: SparkEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        closing = threading.Thread(target=hang_up_on_all, args=(listening,), daemon=True)
        closing.start()
        with pytest.raises(ExternalError) as caught:
            rows(engine, f"sc://127.0.0.1:{port}")
    assert caught.value.code == "SS5117"


def hang_up_on_all(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


class TlsProxy:
    """Ends TLS before a Connect server, which has none of its own, as users put one there. It takes one certificate's name."""

    def __init__(self, port: int, directory: Path) -> None:
        authority = trustme.CA()
        self.ca_file = str(directory / "ca.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["h2"])
        authority.issue_cert("localhost").configure_cert(self._context)
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain = self._listening.accept()[0]
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client = self._context.wrap_socket(plain, server_side=True)
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=copy, args=(server, client), daemon=True).start()
            copy(client, server)


def copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


SETTINGS = ("execution.runtime-mode=BATCH", "execution.batch.engine=spark")


def run_sqlstream(
    text: str, url: str, directory: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    words = [word for setting in (*SETTINGS, f"spark.remote={url}") for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, "-m", "sqlstream", "run", *words, "--format", "csv", "-c", text],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=directory,
        env=environment(**variables),
        check=False,
    )


TABLE = (
    "CREATE TABLE g (id BIGINT, v INT) WITH ('connector'='datagen', 'number-of-rows'='10000',"
    " 'rows-per-second'='100000000', 'fields.id.kind'='sequence', 'fields.id.start'='1', 'fields.id.end'='10000',"
    " 'fields.v.min'='1', 'fields.v.max'='3')"
)
QUERY = "SELECT MOD(id, 5) AS k, COUNT(*) AS n, SUM(id) AS s FROM g GROUP BY MOD(id, 5) ORDER BY k"
ANSWER = [
    "k,n,s",
    "0,2000,10005000",
    "1,2000,9997000",
    "2,2000,9999000",
    "3,2000,10001000",
    "4,2000,10003000",
]


@pytest.mark.slow
def test_commands_without_java_run_and_verify_on_the_server_by_tls(tmp_path: Path) -> None:
    with ConnectServer(tmp_path) as server:
        proxy = TlsProxy(server.port, tmp_path)
        url = f"sc://localhost:{proxy.port}/;use_ssl=true;token={server.token}"
        no_java = {"JAVA_HOME": "", "PATH": str(tmp_path), "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": proxy.ca_file}
        done = run_sqlstream(f"{TABLE}; {QUERY}", url, **no_java)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ANSWER
        assert done.stderr == ""
        verified = run_sqlstream(f"{TABLE}; VERIFY {QUERY} USING spark", url, **no_java)
        assert verified.returncode == 0, verified.stderr
        assert "equal: 5 rows as a stream" in verified.stdout
        (tmp_path / "here").mkdir()
        (tmp_path / "here" / "lines.csv").write_text("1\n2\n")
        lines = "CREATE TABLE l (n INT) WITH ('connector'='filesystem', 'path'='lines.csv', 'format'='csv')"
        relative = run_sqlstream(f"{lines}; SELECT SUM(n) AS s FROM l", url, tmp_path / "here", **no_java)
        assert relative.stdout.splitlines() == ["s", "3"]
        explained = run_sqlstream(f"{TABLE}; EXPLAIN {QUERY}; SET", url, **no_java)
        assert "== Plan of Spark ==" in explained.stdout
        assert "HashAggregate" in explained.stdout
        assert server.token not in explained.stdout + explained.stderr
        proxy.close()


@pytest.mark.slow
def test_a_certificate_of_a_stranger_is_refused(tmp_path: Path, engine: SparkEngine) -> None:
    # Nobody is behind it: the handshake comes first.
    proxy = TlsProxy(9, tmp_path)
    with pytest.raises(ExternalError) as caught:
        rows(engine, f"sc://localhost:{proxy.port}/;use_ssl=true;token=geheim")
    proxy.close()
    assert caught.value.code == "SS5117"
    assert "geheim" not in caught.value.message + caught.value.detail


ENDLESS_SQL = (
    TABLE.replace("10000", "10000000")
    + "; SELECT COUNT(*) AS n FROM g a JOIN g b ON MOD(a.id * b.id, 7919) = 3"
)


@pytest.mark.slow
def test_ctrl_c_ends_a_command_and_its_query_at_the_server(tmp_path: Path) -> None:
    with ConnectServer(tmp_path) as server:
        words = [w for s in (*SETTINGS, f"spark.remote={server.url}") for w in ("--set", s)]
        command = subprocess.Popen(
            [sys.executable, "-m", "sqlstream", "run", *words, "-c", ENDLESS_SQL],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ,
        )
        try:
            workers = functools.partial(descendants, server.process_id, "pyspark")
            wait_until(lambda: len(workers()) > 1, 200)
            command.send_signal(signal.SIGINT)
            command.wait(240)
            assert command.returncode == 130
        finally:
            command.kill()
            command.communicate()
        engine = SparkEngine()
        # The server's cores are free again: the endless query would leave this one none.
        assert rows(engine, server.url, "SELECT count(*) AS n FROM range(0, 1000, 1, 4)") == [(1000,)]
        engine.close()


@pytest.mark.slow
def test_a_server_of_ours_runs_its_sessions_there_and_refuses_them_another(tmp_path: Path) -> None:
    with ConnectServer(tmp_path) as connect:
        words = [w for s in (*SETTINGS, f"spark.remote={connect.url}") for w in ("-D", s)]
        with RunningServer(tmp_path / "data", *words) as server:
            session = server.open_session()
            server.execute(session, TABLE)
            found = server.execute(session, QUERY)
            assert [",".join(str(value) for value in row) for row in found] == ANSWER[1:]
            with pytest.raises(AssertionError, match="SS4055"):
                server.execute(session, "SET 'spark.remote' = 'sc://127.0.0.1:9'")
        log = "".join(f.read_text() for f in (tmp_path / "data").rglob("*.log"))
        assert connect.token not in log + server.errors()
