"""`sqlstream bench kafka` measures against a broker; what it measures here are too few messages to mean anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_harness import sqlstream
from kafka_harness import FastBroker, running_broker

from sqlstream.client.main import main


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("read", ["bare loop", "kafka to blackhole", "by bare loop"]),
        ("window", ["bare loop", "decode JSON from memory", "JSON to count by window", "by loop and decode"]),
        ("copy", ["kafka to kafka"]),
    ],
)
def test_a_part_is_measured_and_told(part: str, names: list[str], tmp_path: Path) -> None:
    out = tmp_path / "kafka.json"
    with running_broker(tmp_path / "broker", FastBroker) as broker:
        done = sqlstream(
            *("bench", "kafka", "--servers", broker.address, "--parts", part),
            *("--rows", "20000", "--runs", "1", "--json", str(out)),
        )
    figures = json.loads(out.read_text())
    assert [figure["name"] for figure in figures] == names
    assert done.returncode == (0 if all(figure["is_within_bar"] for figure in figures) else 1)
    assert all(name in done.stdout for name in names)


def test_latency_and_idle_jobs_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "kafka.json"
    with running_broker(tmp_path / "broker") as broker:
        sqlstream(
            *("bench", "kafka", "--servers", broker.address, "--parts", "latency,idle", "--seconds", "1"),
            *("--json", str(out)),
        )
    p50, p99, idle = json.loads(out.read_text())
    assert 0 < p50["value"] <= p99["value"]
    assert idle["value"] >= 0


def test_a_broker_that_is_away_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sqlstream.client.benches.kafka.ADMIN_TIMEOUT_S", 0.2)
    assert main(["bench", "kafka", "--servers", "127.0.0.1:1", "--parts", "read"]) == 1
    said = capsys.readouterr().err
    assert "error[SS5301]" in said
    assert "Traceback" not in said
