"""`sqlstream server` and its signals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_harness import TIMEOUT_S

from sqlstream.client.clusters.server_file import data_directory
from sqlstream.client.commands.server import greeting
from sqlstream.client.main import main

STOPPED = """
import signal, sys, threading, time
import sqlstream.client.commands.server as command

class Server:
    token_path = None
    has_gateway = True
    is_logging_json = sys.argv[1] == "json"
    gateway_url = rest_url = data_directory = ""
    is_broken = False

    def __init__(self, configuration, task_managers):
        self.stopped, self.reloaded = threading.Event(), threading.Event()

    join_address = ""

    def lead(self, on_waiting):
        return True

    def reload(self, configuration):
        print("reloaded")
        self.reloaded.set()

    def start(self):
        other = threading.Thread(target=time.sleep, args=(240,), daemon=True)
        other.start()
        threading.Thread(target=self.ask, args=(other.ident,), daemon=True).start()

    def ask(self, other):
        time.sleep(0.2)
        if sys.argv[1] == "reload":
            signal.pthread_kill(other, signal.SIGHUP)
            self.reloaded.wait(240)
            self.stopped.set()
        elif sys.argv[1] == "signal":
            # As the kernel may do with a signal for the process.
            signal.pthread_kill(other, signal.SIGTERM)
        else:
            self.stopped.set()

    def stop(self):
        print("stopped")

import sqlstream.client.server.server
sqlstream.client.server.server.Server = Server
raise SystemExit(command.serve(lambda: None, None))
"""


@pytest.mark.parametrize("how", ["signal", "rest"])
def test_a_server_stops_whichever_thread_the_signal_meets(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, how], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["stopped"]), done.stderr


def test_a_hangup_reloads_and_ends_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, "reload"], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["reloaded", "stopped"]), done.stderr


def test_where_the_log_is_json_no_plain_line_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, "json"], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


def test_the_greeting_asks_for_the_settings_where_the_token_of_the_data_directory_would_not_count() -> None:
    server: Any = SimpleNamespace(
        has_gateway=True,
        gateway_url="http://head:8083",
        rest_url="http://head:8081",
        data_directory=data_directory(""),
        token_path=None,
        join_address="head:6124",
        has_leaders=False,
    )
    join_at = "  join at        head:6124; for the token: sqlstream cluster token"
    assert join_at in greeting(server).splitlines()
    server.data_directory = "/my data"
    assert f"{join_at} --data-dir '/my data'" in greeting(server).splitlines()
    server.has_leaders = True
    assert "sqlstream cluster token with the settings of this server (--config or -D)" in greeting(server)


def test_who_makes_another_cluster_by_asking_for_a_token_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["cluster", "token", "--data-dir", str(tmp_path / "data")]
    assert main(words) == 0
    first = capsys.readouterr()
    assert f'made a new cluster\'s authority in "{tmp_path}/data/cluster"' in first.err
    assert main(words) == 0
    assert capsys.readouterr() == (first.out, "")
