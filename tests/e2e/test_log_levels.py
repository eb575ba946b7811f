"""Levels of loggers that are changed while a server and its TaskManagers run."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command_harness import sqlstream
from server_harness import RunningServer

FOUND_S = 120.0
TASKS = "sqlstream.runtime.taskmanager.task"


def test_a_level_holds_in_the_server_in_its_task_managers_and_in_those_to_come(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "--task-managers", "1") as server:
        told = sqlstream("log-level", f"{TASKS}=error", "root=debug", "--server", server.gateway)
        assert told.returncode == 0, told.stderr
        assert TASKS in told.stdout
        found = server.get("/log-levels")["processes"]
        assert found[0]["process"] == "server"
        assert len(found) >= 2
        assert all((p["levels"][TASKS], p["levels"]["root"]) == ("ERROR", "DEBUG") for p in found), found
        # One that is killed is replaced by another, which gets them too.
        (old,) = [p["process"] for p in found[1:]]
        (child,) = server.task_managers()[:1]
        child.kill()
        deadline_s = time.monotonic() + FOUND_S
        while True:
            others = [p for p in server.get("/log-levels")["processes"][1:] if p["process"] != old]
            if others and others[0]["levels"].get(TASKS) == "ERROR":
                break
            assert time.monotonic() < deadline_s, others
            time.sleep(0.1)
        session = server.open_session()
        server.execute(session, "SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (n)")
        assert "the task is RUNNING" not in server.errors()
        words = (f"{TASKS}=", "root=", "--json", "--server", server.gateway)
        reset = json.loads(sqlstream("log-level", *words).stdout)
        assert all(p["levels"].get("root") == "INFO" and TASKS not in p["levels"] for p in reset["processes"])
        assert server.execute(session, "SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (n)") == [[2]]
        server.wait_for_errors("the task is RUNNING")


def test_what_is_no_level_or_not_allowed_changes_nothing(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", "-D", "sqlstream.server.authentication=ALWAYS") as server:
        admin = (tmp_path / "data" / "token").read_text().strip()
        made = sqlstream("token", "add", "ops", "--role", "operator", "--data-dir", str(tmp_path / "data"))
        operator = made.stdout.strip().splitlines()[-1].split()[-1]
        body = {"levels": {"root": "DEBUG"}}
        server.headers = {"Authorization": f"Bearer {operator}"}
        refused = server.request("PUT", "/log-levels", body, rest=True)
        assert (refused.status_code, "change what it logs" in refused.text) == (403, True), refused.text
        server.headers = {"Authorization": f"Bearer {admin}"}
        for wrong in ({"root": "LOUD"}, {"a b": "DEBUG"}, {"x" * 300: "DEBUG"}):
            answer = server.request("PUT", "/log-levels", {"levels": wrong}, rest=True)
            assert (answer.status_code, "SS6120" in answer.text) == (400, True), answer.text
        assert server.request("PUT", "/log-levels", {"levels": 3}, rest=True).status_code == 400
        assert server.get("/log-levels")["processes"][0]["levels"]["root"] == "INFO"
