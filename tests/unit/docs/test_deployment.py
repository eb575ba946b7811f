"""The files for deployments: what can be told of them without the systems that read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from leader_stores import running_kubernetes

from sqlstream.client.configuration import load_configuration
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.kubernetes_store import KubernetesStore
from sqlstream.client.server.leaders.leadership import Leadership, LeaseTimes, Stores
from sqlstream.client.server.standalone import StandaloneCluster
from sqlstream.runtime.net.joining import JoinToken

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "docs" / "deploy"
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
SCALING = (DEPLOY / "kubernetes-autoscaling.yaml").read_text()
SCALER = yaml.safe_load(SCALING)


def named(kind: str) -> Any:
    return next(found for found in OBJECTS if found["kind"] == kind)


@pytest.mark.parametrize(
    "found", [*OBJECTS, SCALER], ids=lambda found: f"{found['kind']} {found['metadata']['name']}"
)
def test_objects_of_kubernetes_are_those_of_its_api(found: Any) -> None:
    kubernetes_validate.validate(found, "1.37", strict=True)


def test_settings_in_kubernetes_are_options(tmp_path: Path) -> None:
    path = tmp_path / "sqlstream.yaml"
    path.write_text(named("ConfigMap")["data"]["sqlstream.yaml"])
    assert load_configuration(str(path), []).get("execution.target") == "standalone"


def test_the_secret_of_a_cluster_that_was_made_first_is_that_of_the_server(tmp_path: Path) -> None:
    made = tmp_path / "new" / "cluster"
    made.parent.mkdir()
    token = StandaloneCluster(str(made)).join_token()
    (made / "tokens.json").write_text("[]")
    (script,) = named("StatefulSet")["spec"]["template"]["spec"]["initContainers"][0]["args"]
    (tmp_path / "pod").mkdir()

    def start() -> None:
        words = ["sh", "-c", script.replace("/secret", str(made))]
        subprocess.run(words, cwd=tmp_path / "pod", check=True, timeout=60)

    start()
    data = tmp_path / "pod" / "data"
    assert StandaloneCluster(str(data / "cluster")).join_token() == token
    # What has been changed since stays when the pod starts again.
    for path in (data / "tokens.json", data / "cluster" / "join-secret"):
        path.write_text("changed")
    start()
    assert (data / "tokens.json").read_text() == (data / "cluster" / "join-secret").read_text() == "changed"
    assert sorted(path.name for path in data.iterdir()) == ["cluster", "tokens.json"]
    assert JoinToken.parse(f"{token}\n") == token


def pods() -> dict[str, Any]:
    return {
        found["kind"]: found["spec"]["template"] for found in OBJECTS if "template" in found.get("spec", {})
    }


def test_pods_of_one_part_are_spread_over_nodes_and_servers_alone_ask_kubernetes() -> None:
    for kind, template in pods().items():
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is (kind == "StatefulSet"), kind
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, kind
    for kind in ("StatefulSet", "Deployment"):
        (spread,) = pods()[kind]["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["labelSelector"]["matchLabels"] == pods()[kind]["metadata"]["labels"]


def test_what_scales_task_managers_knows_how_many_slots_each_has() -> None:
    deployment = next(found for found in OBJECTS if found["metadata"]["name"] == SCALER["metadata"]["name"])
    target = SCALER["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (deployment["kind"], deployment["metadata"]["name"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][container["args"].index("--slots") + 1] == "2"


def test_servers_may_do_in_kubernetes_what_leaders_do_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_kubernetes(tmp_path) as (api, account, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        stores = Stores(KubernetesStore(str(account), "sqlstream", 5), FolderStore(str(tmp_path / "large")))
        for _ in range(2):
            leadership = Leadership(stores, LeaseTimes(5, 5, 1), lambda: None)
            assert leadership.wait(threading.Event())
            leadership.change("job-a", {"graph": b"1"})
            leadership.change("job-a", {"graph": None})
            leadership.stop()
        stores.close()
    allowed = {
        (resource, verb)
        for rule in named("Role")["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert api.asked == allowed
    (lease,) = (found for path, found in api.objects.items() if "/leases/" in path)
    kubernetes_validate.validate(lease, "1.37", strict=True)
    assert (lease["spec"]["leaseTransitions"], lease["spec"]["holderIdentity"]) == (2, "")
    for path, found in api.objects.items():
        if "/configmaps/" in path:
            kubernetes_validate.validate(found, "1.37", strict=True)


def test_images_and_manifests_name_the_same_user_and_ports() -> None:
    image = (ROOT / "Dockerfile").read_text()
    ports = {int(port) for port in re.findall(r"^EXPOSE (.*)$", image, re.MULTILINE)[0].split()}
    services = [found for found in OBJECTS if found["kind"] == "Service"]
    assert ports == {port["port"] for found in services for port in found["spec"]["ports"]}
    users = {
        found["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
        for found in OBJECTS
        if "template" in found.get("spec", {})
    }
    assert users == {int(re.findall(r"^USER (\d+)$", image, re.MULTILINE)[0])}
    kept = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert {"pyproject.toml", "setup.py", "sqlstream", "planner", "runtime", "client", "queries"} <= kept


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is missing (Debian: apt-get install systemd)",
)
@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("*.service")), ids=lambda path: path.stem)
def test_units_of_systemd_are_right(unit: Path, tmp_path: Path) -> None:
    command = tmp_path / "sqlstream"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/sqlstream/bin/sqlstream", str(command)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60
    )
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
    assert done.returncode == 0
