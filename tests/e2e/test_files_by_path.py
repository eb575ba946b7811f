"""Files read by their path through the command, a server and the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_harness import sqlstream
from server_harness import RunningServer
from shell_harness import ENTER, TAB, ShellOnTerminal


def test_the_command_reads_a_file_in_stream_and_batch_mode(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("user;page\n1;x\n2;\n1;y\n")
    query = "SELECT `user`, COUNT(page) AS n FROM 'clicks.csv' GROUP BY `user`;"
    batch = "SET 'execution.runtime-mode' = 'batch'; SET 'execution.batch.engine' = 'duckdb';"
    (tmp_path / "q.sql").write_text(f"{query} {batch} {query}")
    done = sqlstream("run", str(tmp_path / "q.sql"), "--format", "json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [{"user": 1, "n": 2}, {"user": 2, "n": 0}]
    assert [sorted(part, key=str) for part in (rows[:2], rows[2:])] == [expected, expected]
    (tmp_path / "q.sql").write_text("SELECT *\nFROM 'clics.csv';")
    done = sqlstream("run", str(tmp_path / "q.sql"), cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[:3]) == (
        2,
        [
            'error[SS5002]: there is no file or directory "clics.csv"',
            "  2 | FROM 'clics.csv';",
            "    |      ^^^^^^^^^^^",
        ],
    )


def candidates(server: RunningServer, session: str, text: str) -> list[str]:
    body = {"statement": text, "position": len(text)}
    answer = server.request("GET", f"/v3/sessions/{session}/complete-statement", body)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["candidates"])


def test_a_server_keeps_to_its_roots_and_roles(tmp_path: Path) -> None:
    inside, outside, data = tmp_path / "in", tmp_path / "out", tmp_path / "data"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "a.csv").write_text("n\n7\n")
    (inside / "link.csv").symlink_to(outside / "a.csv")
    tokens = {}
    for name, role in (("eyes", "read-only"), ("hands", "operator")):
        tokens[name] = sqlstream("token", "add", name, "--role", role, "--data-dir", str(data)).stdout.strip()
    bind = ("-D", "sql-gateway.endpoint.rest.bind-address=0.0.0.0", "-D", "rest.bind-address=0.0.0.0")
    with RunningServer(data, "-D", f"sqlstream.server.file-roots={inside}", *bind) as server:
        server.headers = {"Authorization": f"Bearer {tokens['hands']}"}
        session = server.open_session()
        assert server.execute(session, f"SELECT n + 1 FROM '{inside}/a.csv'") == [[8]]
        server.execute(session, f"CREATE VIEW v AS SELECT n FROM '{inside}/a.csv'")
        assert candidates(server, session, f"SELECT * FROM '{inside}/a") == [f"'{inside}/a.csv'"]
        assert candidates(server, session, f"SELECT * FROM '{outside}/a") == []
        for path in (f"{outside}/a.csv", f"{inside}/../out/a.csv", f"{inside}/link.csv", f"{inside}/*.csv"):
            for text in (f"SELECT * FROM '{path}'", f"CREATE TABLE t LIKE '{path}'"):
                with pytest.raises(AssertionError, match="lies outside of the directories"):
                    server.execute(session, text)
        (inside / "a.csv").unlink()
        (inside / "a.csv").symlink_to(outside / "a.csv")
        with pytest.raises(AssertionError, match="lies outside of the directories"):
            server.execute(session, "SELECT n FROM v")
        (inside / "a.csv").unlink()
        (inside / "a.csv").write_text("n\n9\n")
        server.headers = {"Authorization": f"Bearer {tokens['eyes']}"}
        session = server.open_session()
        with pytest.raises(AssertionError, match="the role read-only may not name files and servers"):
            server.execute(session, f"SELECT * FROM '{inside}/a.csv'")
        assert candidates(server, session, f"SELECT * FROM '{inside}/a") == []
        assert server.execute(session, "SELECT n FROM v") == [[9]]


def test_the_shell_completes_the_path_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "clicks.csv").write_text("n\n41\n")
    with ShellOnTerminal(tmp_path, columns=200) as shell:
        shell.wait_for_prompt()
        shell.run("SELECT 1;")
        shell.send(f"SELECT n + 1 AS m FROM '{tmp_path}/da")
        shell.wait_for("directory")
        shell.send(TAB)
        shell.wait_for("data/")
        shell.send("cl")
        shell.wait_for("clicks.csv'")
        shell.send(TAB)
        shell.wait_for(f"FROM '{tmp_path}/data/clicks.csv'")
        shell.send(";" + ENTER)
        shell.wait_for("| 42 |")
