"""The server as a process: it stops cleanly, survives being killed, and keeps out who may not enter."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
import trustme
from command_harness import sqlstream, wait_until_ended
from server_harness import RunningServer
from spark_harness.processes import wait_until

GENERATOR = "CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10')"
PRINTED = "CREATE TABLE p (n BIGINT) WITH ('connector' = 'print')"


def files_table(name: str, path: Path | str) -> str:
    return f"CREATE TABLE {name} (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}')"


def rows_in(directory: Path) -> list[int]:
    files = [p for p in directory.rglob("part-*") if ".staging" not in str(p)]
    return sorted(int(line) for p in files for line in p.read_text().split())


def test_a_server_survives_a_stop_and_a_kill_with_its_catalog_and_jobs(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    with server:
        session = server.open_session()
        assert server.execute(session, "SELECT 40 + 2") == [[42]]
        for text in (GENERATOR, PRINTED):
            server.execute(session, text)
        job = server.insert(session, "INSERT INTO p SELECT n FROM g")
        assert server.submit(session, "SELECT n FROM g").status_code == 200
        server.wait_for(job, "RUNNING")
        children = server.children()
        started_s = time.monotonic()
        assert server.signal(signal.SIGTERM) == 0
        assert time.monotonic() - started_s < 30
        wait_until_ended(children)
        assert not (tmp_path / "data" / "server.json").exists()

        server.start()
        assert server.wait_for(job, "RUNNING") == "RUNNING"
        assert (
            f'job "insert-into_default_catalog.default_database.p" starts again from its beginning job={job}'
            in server.errors()
        )
        assert len(server.statuses()) == 2, "the job and the ended query"
        session = server.open_session()
        assert server.execute(session, "SHOW TABLES") == [["g"], ["p"]]
        cancelled = server.insert(session, "INSERT INTO p SELECT n + 1 FROM g")
        assert server.request("PATCH", f"/jobs/{cancelled}?mode=cancel", rest=True).status_code == 202
        server.wait_for(cancelled, "CANCELED")
        server.kill()

        server.start()
        assert server.wait_for(job, "RUNNING") == "RUNNING"
        assert server.statuses()[cancelled] == "CANCELED"
        log = server.get(f"/jobs/{cancelled}/logs")
        assert any("the job is CANCELED" in record for record in log["records"])
        assert all(cancelled in record for record in log["records"])
        assert server.get(f"/jobs/{cancelled}/logs?after={log['next']}")["records"] == []


def test_a_dashboard_sees_what_task_managers_do_and_say(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "-D", "rest.flamegraph.num-samples=20") as server:
        session = server.open_session()
        for text in (GENERATOR, PRINTED):
            server.execute(session, text)
        job = server.insert(session, "INSERT INTO p SELECT n FROM g")
        query = server.submit(session, "SELECT n  +\n 1 FROM g;").json()["operationHandle"]
        server.wait_for(job, "RUNNING")
        wait_until(lambda: "SELECT n + 1 FROM g" in {j["name"] for j in server.get("/jobs/overview")["jobs"]})
        vertex = server.get(f"/jobs/{job}")["vertices"][0]["id"]
        path = f"/jobs/{job}/vertices/{vertex}/flamegraph"
        wait_until(lambda: server.get(path)["data"] is not None)
        root = server.get(path)["data"]
        assert (root["name"], root["value"]) == ("root", 20)
        assert "threading" in root["children"][0]["name"]
        waiting, working = (
            server.get(f"{path}?type={kind}")["data"]["value"] for kind in ("off_cpu", "on_cpu")
        )
        # The source makes ten rows per second.
        assert (waiting + working, waiting > working) == (20, True)

        (manager, *_) = server.get("/taskmanagers")["taskmanagers"]
        url = f"/taskmanagers/{manager['id']}"
        assert "the task is RUNNING" in server.request("GET", f"{url}/log", rest=True).text
        threads = server.get(f"{url}/thread-dump")["threadInfos"]
        # A task's thread has its name.
        assert any(t["threadName"].startswith("Source: g") for t in threads)
        wait_until(lambda: "+I[" in server.request("GET", "/jobmanager/stdout", rest=True).text)
        assert server.request("DELETE", f"/v3/sessions/{session}/operations/{query}/close").status_code == 200
        assert server.request("GET", f"/jobs/{job}/yarn-cancel", rest=True).status_code == 202
        assert server.wait_for(job, "CANCELED") == "CANCELED"


def test_a_killed_server_writes_each_row_once_and_loses_queries(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("".join(f"{n}\n" for n in range(1000)))
    server = RunningServer(tmp_path / "data")
    with server:
        session = server.open_session()
        for text in (GENERATOR, files_table("i", tmp_path / "in"), files_table("o", tmp_path / "out")):
            server.execute(session, text)
        done = server.insert(session, "INSERT INTO o SELECT n FROM i")
        server.wait_for(done, "FINISHED")
        server.submit(session, "SELECT n FROM g")
        slow = (
            "CREATE TABLE w (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}'{})"
        )
        server.execute(session, slow.format(tmp_path / "in", ", 'source.monitor-interval' = '1 s'"))
        server.execute(session, files_table("o2", tmp_path / "out2"))
        endless = server.insert(session, "INSERT INTO o2 SELECT n FROM w")
        server.wait_for(endless, "RUNNING")
        server.signal(signal.SIGKILL)
        server.start()
        server.wait_for(endless, "RUNNING")
        statuses = server.statuses()
        assert sorted(statuses.values()) == ["FAILED", "FINISHED", "RUNNING"]
        (lost,) = (job for job, status in statuses.items() if status == "FAILED")
        cause = server.get(f"/jobs/{lost}/exceptions")
        assert "the server ended while the query ran" in json.dumps(cause)
        assert statuses[done] == "FINISHED"
        finished, gone = server.get(f"/jobs/{done}"), server.get(f"/jobs/{lost}")
        assert {vertex["status"] for vertex in finished["vertices"]} == {"FINISHED"}
        assert (finished["state"], gone["state"]) == ("FINISHED", "FAILED")
        assert 0 <= finished["duration"] < 600_000
        assert {vertex["status"] for vertex in gone["vertices"]} == {"CANCELED"}
        for path in ("plan", "exceptions", "config", "checkpoints"):
            server.get(f"/jobs/{lost}/{path}")
    assert rows_in(tmp_path / "out") == list(range(1000))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "settings",
    [
        {"execution.runtime-mode": "STREAMING"},
        {"execution.runtime-mode": "BATCH", "execution.batch.engine": "duckdb"},
        pytest.param(
            {"execution.runtime-mode": "BATCH", "execution.batch.engine": "spark"}, marks=pytest.mark.slow
        ),
    ],
    ids=lambda settings: settings.get("execution.batch.engine", "stream"),
)
def test_a_second_signal_ends_at_once_and_leaves_no_child_and_no_temporary_file(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    bounded = GENERATOR.replace("'10')", "'1000', 'number-of-rows' = '10000000')")
    with RunningServer(tmp_path / "data", TMPDIR=str(temporary)) as server:
        session = server.open_session()
        sets = [f"SET '{key}' = '{value}'" for key, value in settings.items()]
        for text in (bounded, PRINTED, *sets):
            server.execute(session, text)
        server.wait_for(server.insert(session, "INSERT INTO p SELECT n FROM g"), "RUNNING")
        if "execution.batch.engine" in settings:
            wait_until(lambda: any(temporary.glob("sqlstream-spill-*")))
        if "spark" in settings.values():
            wait_until(lambda: any("java" in child.name() for child in server.children()))
        children = server.children()
        assert children
        server.process.send_signal(signal.SIGTERM)
        assert server.signal(signal.SIGTERM) in (0, 128 + signal.SIGTERM)
        wait_until_ended(children)
        assert list(temporary.glob("sqlstream-spill-*")) == []


def test_what_the_plans_of_one_session_s_jobs_take_is_bounded(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "-D", "sqlstream.server.plans.per-user.max-size=64 kb") as server:
        sessions = [server.open_session() for _ in range(2)]
        for session in sessions:
            server.execute(session, GENERATOR.replace("CREATE TABLE", "CREATE TEMPORARY TABLE"))
            server.execute(session, "CREATE TEMPORARY TABLE b (n STRING) WITH ('connector' = 'blackhole')")
        insert = f"INSERT INTO b SELECT CONCAT(CAST(n AS STRING), '{'x' * 20_000}') FROM g"
        first = server.insert(sessions[0], insert)
        with pytest.raises(AssertionError, match="SS3021"):
            server.insert(sessions[0], insert)
        server.insert(sessions[1], insert)
        assert server.request("PATCH", f"/jobs/{first}?mode=cancel", rest=True).status_code == 202
        server.wait_for(first, "CANCELED")
        server.insert(sessions[0], insert)


def test_one_directory_is_for_one_server_and_a_port_for_one_listener(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        second = sqlstream("server", "--port", "0", "--data-dir", str(tmp_path / "data"))
        assert (second.returncode, second.stdout) == (2, "")
        owner = f"is in use by another server (process {server.process.pid})"
        assert second.stderr.splitlines()[0] == f'error[SS4010]: the data directory "{tmp_path}/data" {owner}'
        port = server.gateway.rpartition(":")[2]
        third = sqlstream("server", "--port", port, "--data-dir", str(tmp_path / "other"))
        assert (third.returncode, third.stdout) == (2, "")
        said = f"error[SS4011]: could not listen on port {port} of 127.0.0.1: it is in use"
        assert third.stderr.splitlines()[0] == said
        assert not (tmp_path / "other").exists()
        assert server.gateway == server.rest, "--port puts both on one"
        assert server.request("GET", "/overview").json()["slots-total"] >= 0


def test_beyond_loopback_a_token_is_required_and_its_role_counts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    added = {}
    for name, role in (("eyes", "read-only"), ("hands", "operator")):
        done = sqlstream("token", "add", name, "--role", role, "--data-dir", str(data))
        assert done.returncode == 0, done.stderr
        added[name] = done.stdout.strip()
    bind = "sql-gateway.endpoint.rest.bind-address=0.0.0.0"
    with RunningServer(data, "-D", bind, "-D", "rest.bind-address=0.0.0.0") as server:
        assert not any("token" in line and added["hands"] in line for line in server.greeting)
        assert server.request("GET", "/overview").status_code == 401
        assert server.request("POST", "/v3/sessions", {}).json() == {
            "errors": ["A token is required: send the header 'Authorization: Bearer TOKEN'."]
        }
        assert server.request("GET", "/").status_code == 200, "the page holds no data"
        server.headers = {"Authorization": f"Bearer {added['eyes']}"}
        session = server.open_session()
        assert server.execute(session, "SELECT 1") == [[1]]
        said = "the role read-only may not create, alter and drop tables"
        with pytest.raises(AssertionError, match=said):
            server.execute(session, "CREATE VIEW v AS SELECT 1 AS n")
        assert server.request("DELETE", "/cluster", rest=True).status_code == 403
        eyes = session
        server.headers = {"Authorization": f"Bearer {added['hands']}"}
        assert server.request("GET", f"/v3/sessions/{eyes}").status_code == 200, "a higher role may use it"
        server.execute(server.open_session(), "CREATE VIEW v AS SELECT 1 AS n")
        session = server.open_session()
        server.execute(session, files_table("tokens", data / "tokens.json"))
        with pytest.raises(AssertionError, match="belongs to the server itself"):
            server.execute(session, "SELECT n FROM tokens")
        server.headers = {"Authorization": f"Bearer {added['eyes']}"}
        for path in (f"/v3/sessions/{session}", f"/v3/sessions/{session}/statements"):
            method = "POST" if path.endswith("statements") else "GET"
            assert server.request(method, path, {"statement": "SELECT 1"}).status_code == 403, path
        asked = {"sessionHandle": session, "statement": "SEL", "position": 3}
        assert "does not exist" in server.request("POST", "/console/complete-statement", asked).text
        server.headers = {"Authorization": f"Bearer {added['hands']}"}
        removed = sqlstream("token", "remove", "hands", "--data-dir", str(data))
        assert removed.returncode == 0, removed.stderr
        assert server.request("GET", "/overview").status_code == 401
    audit = (data / "audit" / "audit-000001.log").read_text()
    strangers = (data / "audit" / "refused-000001.log").read_text()
    assert [json.loads(line)["status"] for line in audit.splitlines() if '"refused"' in line] == [403] * 4
    statements = [json.loads(line) for line in audit.splitlines() if '"event":"statement"' in line]
    outcomes = {r["operation"]: r for r in map(json.loads, audit.splitlines()) if r["event"] == "outcome"}
    assert {record["address"] for record in statements} == {"127.0.0.1"}
    assert [outcomes[record["operation"]]["outcome"] for record in statements] == [
        *("FINISHED", "ERROR", "FINISHED", "FINISHED", "ERROR")
    ]
    assert [record["code"] for record in outcomes.values() if "code" in record] == ["SS2037", "SS5030"]
    assert [json.loads(line)["status"] for line in strangers.splitlines()] == [401, 401, 401]
    everything = audit + strangers + server.errors()
    assert not any(token in everything for token in added.values())


@pytest.mark.slow
def test_the_first_start_with_tokens_makes_one_in_a_file_and_tells_nobody(tmp_path: Path) -> None:
    always = ("-D", "sqlstream.server.authentication=ALWAYS")
    server = RunningServer(tmp_path / "data", *always)
    with server:
        assert f"in {tmp_path}/data/token" in "\n".join(server.greeting)
        assert (tmp_path / "data" / "token").stat().st_mode & 0o777 == 0o600
        token = (tmp_path / "data" / "token").read_text().strip()
        assert server.request("GET", "/overview").status_code == 401
        for path in ("/health", "/ready", "/version"):
            for rest in (False, True):
                assert server.request("GET", path, rest=rest).status_code == 200, path
        server.headers = {"Authorization": f"Bearer {token}"}
        assert server.request("DELETE", "/cluster", rest=True).status_code == 200
        assert server.process.wait(60) == 0
        server.start()
        assert token not in "\n".join(server.greeting) + server.errors()
        assert f"in {tmp_path}/data/token" in "\n".join(server.greeting)
        assert (tmp_path / "data" / "token").read_text() == f"{token}\n"
        assert server.get("/overview")["flink-version"]


def test_tls_is_served_with_the_given_files(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    pem, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    pem.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    words = ("-D", "security.ssl.rest.enabled=true", "-D", f"security.ssl.rest.certificate-file={pem}")
    with RunningServer(tmp_path / "data", *words, "-D", f"security.ssl.rest.key-file={key}") as server:
        assert server.gateway.startswith("https://localhost:")
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            server.request("GET", "/info")
        server.verify = ssl.create_default_context()
        authority.configure_trust(server.verify)
        assert server.execute(server.open_session(), "SELECT 1") == [[1]]
        plain = socket.create_connection(("127.0.0.1", int(server.gateway.rpartition(":")[2])))
        with plain:
            plain.sendall(b"GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n")
            plain.settimeout(10)
            assert b"This port speaks HTTPS: write https:// instead of http://." in plain.recv(1000)
        server.wait_for_errors("speaks HTTP to a port that speaks HTTPS")
        # A hangup ends nothing, and new connections see the certificate that lies there now.
        renewed = authority.issue_cert("localhost", common_name="renewed")
        pem.write_bytes(b"".join(blob.bytes() for blob in renewed.cert_chain_pems))
        key.write_bytes(renewed.private_key_pem.bytes())
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: "are read again" in server.errors())
        address = ("localhost", int(server.gateway.rpartition(":")[2]))
        raw = socket.create_connection(address)
        with server.verify.wrap_socket(raw, server_hostname="localhost") as shown:
            assert "renewed" in str(shown.getpeercert())
        key.write_text("no key")
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: "the settings in force stay" in server.errors())
        assert server.request("GET", "/health").status_code == 200
    key.write_text("no key")
    own = ("-D", f"security.ssl.rest.key-file={key}", "--data-dir", str(tmp_path / "d2"), "--port", "0")
    wrong = sqlstream("server", *words, *own)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith(
        "error[SS4002]: the certificate and key of security.ssl.rest cannot be used"
    )


def test_tables_stay_within_the_given_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "a.csv").write_text("7\n")
    (inside / "link").symlink_to(outside)
    (inside / "sub").mkdir()
    (inside / "sub" / "b.csv").symlink_to(outside / "a.csv")
    words = ("-D", f"sqlstream.server.file-roots={inside}")
    ports = ("-D", "rest.port=0", "-D", "sql-gateway.endpoint.rest.bind-port=20000-29999")
    with RunningServer(tmp_path / "data", *words, *ports, port=None) as server:
        assert server.gateway != server.rest
        assert server.get("/overview")["jobs-running"] == 0
        session = server.open_session()
        server.execute(session, files_table("good", inside / "a.csv"))
        assert server.execute(session, "SELECT n FROM good") == [[7]]
        for name, path in (
            ("abs", outside),
            ("dots", f"{inside}/../out"),
            ("link", inside / "link"),
            ("deep", inside / "sub"),
        ):
            server.execute(session, files_table(name, path))
            with pytest.raises(
                AssertionError, match="lies outside of the directories that this server allows"
            ):
                server.execute(session, f"SELECT n FROM {name}")
        hint = f"SELECT n FROM good /*+ OPTIONS('path' = '{outside}/a.csv') */"
        with pytest.raises(AssertionError, match="lies outside"):
            server.execute(session, hint)
        with pytest.raises(AssertionError, match="lies outside"):
            server.execute(session, "INSERT INTO link SELECT 1")
        options = f"'connector' = 'duckdb', 'path' = '{outside}/a.csv', 'csv.header' = 'false'"
        server.execute(session, f"CREATE TABLE dim (n BIGINT) WITH ({options})")
        lookup = "JOIN dim FOR SYSTEM_TIME AS OF g.p AS d ON g.n = d.n"
        for query in (
            "SELECT n FROM dim",
            f"SELECT g.n FROM (SELECT n, PROCTIME() AS p FROM good) AS g {lookup}",
        ):
            with pytest.raises(AssertionError, match="lies outside"):
                server.execute(session, query)
        with pytest.raises(AssertionError, match="lies outside"):
            server.execute(session, f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{outside}/catalog')")
    assert sorted(p.name for p in outside.iterdir()) == ["a.csv"]


@pytest.mark.slow
def test_the_log_can_be_json_and_shows_no_secret(tmp_path: Path) -> None:
    with RunningServer(
        tmp_path / "data", "-D", "sqlstream.log.format=JSON", SQLSTREAM_REST_PRT="1"
    ) as server:
        session = server.open_session()
        server.execute(session, files_table("t", tmp_path / "none"))
        answer = server.submit(session, "SELECT n FROM t /*+ OPTIONS('my.password' = 'hush') */")
        assert answer.status_code == 200
        job = server.insert(session, "INSERT INTO t SELECT 1")
        server.wait_for(job, "FINISHED")
        server.signal(signal.SIGTERM)
    records = [json.loads(line) for line in server.errors().splitlines()]
    of_task = next(r for r in records if r.get("job") == job and "vertex" in r)
    assert (of_task["subtask"], of_task["attempt"], of_task["process"][:12]) == (1, 0, "taskmanager-")
    assert any("SQLSTREAM_REST_PRT is no option" in r["message"] for r in records)
    log = (tmp_path / "data" / "logs" / "sqlstream-000001.log").read_text()
    assert log == server.errors()
    assert "hush" not in log + (tmp_path / "data" / "audit" / "audit-000001.log").read_text()


def test_a_read_only_token_changes_nothing_by_any_way(tmp_path: Path) -> None:
    data, table = tmp_path / "data", tmp_path / "o" / "a.csv"
    table.parent.mkdir()
    table.write_text("7\n")
    tokens = {
        role: sqlstream("token", "add", role, "--role", role, "--data-dir", str(data)).stdout.strip()
        for role in ("read-only", "operator")
    }
    with RunningServer(data, "-D", "sqlstream.server.authentication=ALWAYS") as server:
        server.headers = {"Authorization": f"Bearer {tokens['operator']}"}
        session = server.open_session()
        files = f"'connector'='filesystem', 'format'='csv', 'path'='{table.parent}'"
        server.execute(session, f"CREATE TABLE o (n INT) WITH ({files})")
        server.execute(session, "CREATE TABLE g (n INT) WITH ('connector'='datagen', 'rows-per-second'='1')")
        server.execute(session, "CREATE TABLE b (n INT) WITH ('connector'='blackhole')")
        job = server.insert(session, "INSERT INTO b SELECT n FROM g")
        server.wait_for(job, "RUNNING")
        server.headers = {"Authorization": f"Bearer {tokens['read-only']}"}
        session = server.open_session()
        for statement, right in (
            ("EXPLAIN ANALYZE INSERT OVERWRITE o SELECT 9", "write tables"),
            ("DROP TABLE o", "create, alter and drop tables"),
            (f"STOP JOB '{job}'", "stop and change jobs"),
        ):
            with pytest.raises(AssertionError, match=f"the role read-only may not {right}"):
                server.execute(session, statement)
        for method, path in (
            *(("PATCH", f"/jobs/{job}"), ("GET", f"/jobs/{job}/yarn-cancel"), ("POST", f"/jobs/{job}/stop")),
            *(("POST", f"/jobs/{job}/savepoints"), ("PATCH", f"/jobs/{job}/rescaling?parallelism=2")),
            *(("POST", "/jars/upload"), ("POST", "/savepoint-disposal"), ("DELETE", "/cluster")),
        ):
            assert server.request(method, path, {}, rest=True).status_code == 403, path
        assert server.execute(session, "SELECT n FROM o") == [[7]]
        assert server.statuses()[job] == "RUNNING"
    assert [path.read_text() for path in table.parent.iterdir()] == ["7\n"]
