"""Clients of Flink's gateway from PyPI, each in an environment of its own, use ours."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_harness import ROOT
from gateway_harness import Server, gateway_server, running_jobs, until
from peers.install import PeerError, install_dbt, install_gateway_client

PEERS = ROOT / ".peers"
TIMEOUT_S = 200

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def server() -> Iterator[Server]:
    with gateway_server() as found:
        yield found


def installed(install: Callable[[Path], Path]) -> Path:
    try:
        return install(PEERS)
    except PeerError as error:
        pytest.skip(str(error))


def run(command: list[str], cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_py_flink_sql_gateway(server: Server, tmp_path: Path) -> None:
    python = installed(install_gateway_client)
    driver = ROOT / "tests" / "peers" / "drivers" / "run_flink_gateway_client.py"
    found = json.loads(run([str(python), str(driver), server.url], tmp_path))
    client, database = found["client"], found["database api"]
    assert "does not exist" in client.pop("unknown session")
    assert client == {
        "product": "sqlstream",
        "versions": ["V1", "V2", "V3", "V4"],
        "config": {"pipeline.name": "n", "table.dml-sync": "true"},
        "candidates": ["SELECT"],
    }
    assert 'table "nowhere" does not exist' in database.pop("error")
    assert database == {
        "types": [
            *("7", "2.5", "a", "True", "None", "1.5"),
            *("2024-02-29", "2024-02-29 01:02:03.456000", "[1, 2]", "{'k': 1}"),
        ],
        "sum": 50_000 * 50_001 // 2,
        "tables": [["g"]],
    }


PROJECT = """
name: shop
version: '1.0'
config-version: 2
profile: shop
seeds: {{shop: {{+default_connector_properties: {{connector: filesystem, format: csv, path: '{data}'}}}}}}
models: {{shop: {{+materialized: view, +type: streaming}}}}
"""
PROFILES = """
shop:
  target: dev
  outputs:
    dev: {{type: flink, host: 127.0.0.1, port: {port}, session_name: s, database: default_catalog,
          schema: default_database, threads: 1}}
"""
SCHEMA = """
version: 2
models: [{name: cities, columns: [{name: city, tests: [not_null]}, {name: n, tests: [unique]}]}]
"""


def test_dbt_flink_adapter(server: Server, tmp_path: Path) -> None:
    dbt = installed(install_dbt).parent / "dbt"
    files = {
        "dbt_project.yml": PROJECT.format(data=tmp_path / "data"),
        "profiles.yml": PROFILES.format(port=server.port),
        "seeds/people.csv": "id,city\n1,Berlin\n2,Paris\n3,Berlin\n",
        "models/cities.sql": "select city, count(*) as n from {{ ref('people') }} group by city",
        "models/schema.yml": SCHEMA,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # It keeps the session's handle here, for the next command.
    (tmp_path / ".dbt").mkdir()

    def command(name: str) -> str:
        words = ["--no-anonymous-usage-stats", "--no-use-colors", name, "--profiles-dir", str(tmp_path)]
        return run([str(dbt), *words], tmp_path)

    assert "All checks passed!" in command("debug")
    assert "Done. PASS=1 WARN=0 ERROR=0" in command("seed")
    # An INSERT is answered before its rows are there.
    until(lambda: running_jobs(server.cluster) == 0)
    assert "Done. PASS=1 WARN=0 ERROR=0" in command("run")
    assert "Done. PASS=2 WARN=0 ERROR=0" in command("test")
