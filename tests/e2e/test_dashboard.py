"""The dashboard and the alert rules name metrics that a job really has, and Prometheus' own tool takes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_harness import ROOT
from kafka_mock import mock_cluster
from server_harness import RunningServer

from sqlstream.testing.check import table_text

DEPLOY = ROOT / "docs" / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
PROMTOOL = shutil.which("promtool")
EXPORTED_S = 120.0


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a server exports with a job that reads Kafka, counts windows, and has lost rows in each way."""
    words = ("-D", "sqlstream.server.database-servers.enabled=true")
    with (
        RunningServer(tmp_path_factory.mktemp("dashboard") / "data", *words) as server,
        mock_cluster(1) as kafka,
    ):
        topic = kafka.topic(1)
        given = kafka.options(
            topic, **{"json.timestamp-format.standard": "SQL", "json.ignore-parse-errors": "true"}
        )
        given.pop("scan.bounded.mode")
        session = server.open_session()
        for statement in (
            "SET 'parallelism.default' = '1'",
            "SET 'metrics.latency.interval' = '50 ms'",
            "SET 'execution.checkpointing.interval' = '200 ms'",
            table_text("events", "ts TIMESTAMP(3), WATERMARK FOR ts AS ts", given).replace(
                "TABLE", "TEMPORARY TABLE", 1
            ),
            "CREATE TEMPORARY TABLE minutes (s TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole')",
        ):
            server.execute(session, statement)
        job_id = server.insert(
            session,
            "INSERT INTO minutes SELECT window_start, COUNT(*) FROM"
            " TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
        )
        kafka.send(topic, [f'{{"ts":"2024-05-01 12:{n}:00.000"}}' for n in (10, 20, 30)])
        wanted = needed()
        deadline_s = time.monotonic() + EXPORTED_S
        while True:
            # Late ones follow in batches of their own: what is late is decided by the watermark before them.
            kafka.send(topic, ['{"ts":"2024-05-01 11:00:00.000"}', "no json"])
            text = server.request("GET", "/metrics", rest=True).text
            if wanted <= exported(text):
                break
            assert time.monotonic() < deadline_s, sorted(wanted - exported(text))
            time.sleep(0.2)
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
        yield text


def needed() -> set[str]:
    texts = [
        *EXPRESSIONS,
        *(rule["expr"] for rule in RULES),
        DASHBOARD["templating"]["list"][1]["query"]["query"],
        (DEPLOY / "kubernetes-autoscaling.yaml").read_text(),
    ]
    return {name for text in texts for name in re.findall(r"\bflink_\w+", text)}


def exported(text: str) -> set[str]:
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def test_every_metric_of_the_dashboard_and_the_alerts_is_exported(scraped: str) -> None:
    assert len(needed()) > 20
    assert needed() <= exported(scraped)


def test_labels_that_rules_and_panels_group_by_are_there(scraped: str) -> None:
    """A label in `by (…)` or in a legend belongs to each metric of its expression."""
    texts = [(e, "") for e in EXPRESSIONS] + [(r["expr"], json.dumps(r["annotations"])) for r in RULES]
    for expression, text in texts:
        grouped = {label for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(", ")} - {
            "le"
        }
        told = set(re.findall(r"\$labels\.(\w+)", text))
        for name in re.findall(r"\bflink_\w+", expression):
            sample = next(line for line in scraped.splitlines() if line.startswith(f"{name}{{"))
            missing = {label for label in grouped | told if f'{label}="' not in sample}
            assert not missing, (expression, missing)


def test_alerts_have_what_prometheus_and_people_need() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert all(isinstance(text, str) and text for text in rule["annotations"].values())


def test_panels_have_places_of_their_own_and_queries() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place: Any = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["targets"]
        assert panel["datasource"]["uid"] == "${source}"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian: apt-get install prometheus)")
def test_promtool_takes_rules_queries_and_what_a_server_exports(scraped: str, tmp_path: Path) -> None:
    assert PROMTOOL is not None
    found = subprocess.run(
        [PROMTOOL, "check", "rules", str(DEPLOY / "alerts.yaml")], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stdout + found.stderr
    queries = [
        {"record": f"q{n}", "expr": re.sub(r"\$__\w+", "5m", text).replace("$job", ".*")}
        for n, text in enumerate(EXPRESSIONS)
    ]
    rules = tmp_path / "queries.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": queries}]}))
    found = subprocess.run(
        [PROMTOOL, "check", "rules", str(rules)], capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stdout + found.stderr
    # Names and types that lint dislikes are Flink's; what cannot be parsed is an error.
    found = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=scraped, capture_output=True, text=True, timeout=60
    )
    assert "error while linting" not in found.stderr, found.stderr
