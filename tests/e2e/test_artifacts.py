"""Files that go with jobs, through the command and servers: large ones, and with a savepoint to another cluster."""

from __future__ import annotations

import hashlib
import http.server
import json
import random
import ssl
import threading
import time
import zipfile
from pathlib import Path

import pytest
import trustme
from command_harness import environment, free_port, sqlstream
from server_harness import JOB_TIMEOUT_S, POLL_S, RunningServer
from standalone_harness import STANDALONE, join_address, workers

pytestmark = pytest.mark.timeout(300)

MODULE = """
import functools, hashlib
from sqlstream import udf
from sqlstream.python_functions import cached_file

@functools.cache
def loaded():
    with open(cached_file("model"), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

@udf(result_type="STRING", deterministic=False)
def digest(n: int) -> str:
    return loaded()
"""
SIZES = """
import pkgutil
from sqlstream import udf

@udf(result_type="BIGINT")
def size(n: int) -> int:
    return len(pkgutil.get_data("words", "data.bin"))
"""
FUNCTION = "CREATE FUNCTION IF NOT EXISTS digest AS 'models.digest' LANGUAGE PYTHON USING FILE '{}'"
OPEN = ("-D", "sqlstream.server.python-functions.enabled=true")


def model(directory: Path, size: int) -> str:
    """A file of so many bytes, and a module with a function that reads it; returns its digest."""
    (directory / "models.py").write_text(MODULE)
    found = hashlib.sha256()
    with (directory / "model.bin").open("wb") as stream:
        for i in range(size // (1 << 20)):
            block = i.to_bytes(4, "big") * (1 << 18)
            stream.write(block)
            found.update(block)
    return found.hexdigest()


def test_a_large_file_reaches_the_functions_of_a_job_in_child_processes(tmp_path: Path) -> None:
    digest = model(tmp_path, 48 << 20)
    script = f"""{FUNCTION.format(tmp_path / "models.py")};
        SET 'pipeline.cached-files' = 'name:model,path:{tmp_path}/model.bin';
        SET 'sqlstream.in-process.max-input-size' = '0';
        CREATE TABLE numbers (n BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '10');
        SELECT DISTINCT digest(n) AS d FROM numbers;"""
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for processes in ("4", "1"):
        words = ("-D", f"taskmanager.numberOfTaskSlots={processes}", "--format", "csv")
        done = sqlstream("run", *words, "-c", script, env=environment(**cache))
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["d", digest]
    assert [p.name for p in (tmp_path / "cache" / "sqlstream" / "artifacts").iterdir()] == [digest]
    refused = sqlstream(
        "run", "-D", "sqlstream.artifacts.max-size=47 mb", "-c", script, env=environment(**cache)
    )
    assert (refused.returncode, "SS5087" in refused.stderr) == (2, True)


def last_row(out: Path) -> dict[str, str]:
    deadline_s = time.monotonic() + JOB_TIMEOUT_S
    while True:
        rows = [
            json.loads(line) for path in sorted(out.glob("part-*")) for line in path.read_text().splitlines()
        ]
        if rows:
            return rows[-1]
        assert time.monotonic() < deadline_s
        time.sleep(POLL_S)


def begin(server: RunningServer, directory: Path, out: str, settings: dict[str, str]) -> tuple[str, str]:
    session = server.open_session()
    for statement in (
        FUNCTION.format(directory / "models.py"),
        "CREATE TABLE numbers (n BIGINT NOT NULL) WITH ('connector' = 'datagen', 'rows-per-second' = '50')",
        f"CREATE TABLE {out} (n BIGINT, d STRING) WITH "
        f"('connector' = 'filesystem', 'format' = 'json', 'path' = '{directory / out}')",
        "SET 'execution.checkpointing.interval' = '200 ms'",
        *(f"SET '{key}' = '{value}'" for key, value in settings.items()),
    ):
        server.execute(session, statement)
    return session, server.insert(session, f"INSERT INTO {out} SELECT n, digest(n) FROM numbers")


def test_a_savepoint_takes_the_files_to_another_cluster(tmp_path: Path) -> None:
    digest = model(tmp_path, 3 << 20)
    named = {
        "pipeline.cached-files": f"name:model,path:{tmp_path}/model.bin",
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
    }
    with RunningServer(tmp_path / "first", *OPEN) as server:
        session, job_id = begin(server, tmp_path, "one", named)
        assert last_row(tmp_path / "one")["d"] == digest
        server.signal(9)
        # A server that was killed has the file still, when its job goes on.
        (tmp_path / "model.bin").unlink()
        server.start()
        server.wait_for(job_id, "RUNNING")
        session = server.open_session()
        server.execute(session, f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path / 'savepoints'}'")
        ((path,),) = server.execute(session, f"STOP JOB '{job_id}' WITH SAVEPOINT")
    assert [p.name for p in Path(path, "artifacts").iterdir()] == [digest]
    with RunningServer(tmp_path / "second", *OPEN) as server:
        _, job_id = begin(server, tmp_path, "two", {"execution.state-recovery.path": path})
        assert last_row(tmp_path / "two")["d"] == digest
        disposed = server.request("POST", "/savepoint-disposal", {"savepoint-path": path}, rest=True).json()
        status = f"/savepoint-disposal/{disposed['request-id']}"
        assert server.get(status) == {"status": {"id": "COMPLETED"}, "operation": {}}
        assert not Path(path).exists()
        # The job that runs has the file all the same.
        assert server.statuses()[job_id] == "RUNNING"


def test_an_uploaded_file_stands_in_statements_by_its_digest(tmp_path: Path) -> None:
    digest = model(tmp_path, 20 << 20)
    with RunningServer(tmp_path / "server", *OPEN) as server:
        for _ in range(2):
            done = sqlstream("upload", str(tmp_path / "model.bin"), "--server", server.gateway)
            assert (done.returncode, done.stdout) == (0, f"sha256:{digest}\n"), done.stderr
        (tmp_path / "model.bin").unlink()
        begin(server, tmp_path, "out", {"pipeline.cached-files": f"name:model,path:sha256:{digest}"})
        assert last_row(tmp_path / "out")["d"] == digest


def test_task_managers_that_joined_fetch_files_over_their_connection(tmp_path: Path) -> None:
    digest = model(tmp_path, 5 << 20)
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", *OPEN)
    cache = tmp_path / "cache"
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 2, XDG_CACHE_HOME=str(cache)),
    ):
        named = {"pipeline.cached-files": f"name:model,path:{tmp_path}/model.bin", "parallelism.default": "2"}
        begin(server, tmp_path, "out", named)
        assert last_row(tmp_path / "out")["d"] == digest
        assert [p.name for p in (cache / "sqlstream" / "artifacts").iterdir()] == [digest]


def test_a_certificate_goes_with_a_job_to_its_tables(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    class Rows(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(b'{"n": 7}')

        def log_message(self, *ignored: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Rows)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        script = f"""SET 'pipeline.cached-files' = 'name:authority,path:{tmp_path}/authority.pem';
            CREATE TABLE t (n INT) WITH ('connector' = 'http', 'url' = 'https://127.0.0.1:{server.server_port}/',
                'format' = 'json', 'http.security.cert.server' = 'artifact:authority');
            SELECT n FROM t;"""
        done = sqlstream("run", "--format", "csv", "-c", script)
        assert done.stdout.split() == ["n", "7"], done.stderr
        without = script.partition(";")[2]
        done = sqlstream("run", "--format", "csv", "-c", without)
        assert (done.returncode, "pipeline.cached-files" in done.stderr) == (1, True), done.stderr
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_large_archive_of_modules_goes_beside_the_plan(tmp_path: Path) -> None:
    data = random.Random(7).randbytes(9 << 20)
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as archive:
        archive.writestr("words/__init__.py", "from words.sizes import size")
        archive.writestr("words/sizes.py", SIZES)
        archive.writestr("words/data.bin", data)
    definition = f"CREATE FUNCTION size AS 'words.size' LANGUAGE PYTHON USING FILE '{tmp_path}/words.zip'"
    query = "SELECT DISTINCT size(n) FROM numbers"
    numbers = (
        "CREATE TABLE numbers (n BIGINT NOT NULL) WITH ('connector' = 'datagen', 'number-of-rows' = '10')"
    )
    script = f"SET 'sqlstream.in-process.max-input-size' = '0'; {definition}; {numbers}; {query};"
    done = sqlstream(
        "run", "--format", "csv", "-c", script, env=environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    )
    assert done.stdout.split()[1:] == [str(len(data))], done.stderr
    with RunningServer(tmp_path / "server", *OPEN) as server:
        session = server.open_session()
        for statement in (definition, numbers):
            server.execute(session, statement)
        rows = server.execute(session, query)
        assert [row[-1] for row in rows] == [len(data)]
