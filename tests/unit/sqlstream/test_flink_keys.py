"""Settings of Flink that have no effect here are taken with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream import config
from sqlstream.client.configuration import load_configuration
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.options.flink_keys import flink_keys, foreign_option
from sqlstream.planner.dialect.parser import parse_script

FLINK_1 = """
SET 'state.backend' = 'rocksdb';
SET 'state.checkpoints.dir' = 'file:///tmp/checkpoints';
SET 'state.backend.incremental' = 'true';
SET 'execution.checkpointing.incremental' = 'true';
SET 'execution.checkpointing.unaligned' = 'false';
SET 'execution.planner' = 'blink';
SET 'execution.type' = 'streaming';
SET 'execution.parallelism' = '2';
SET 'jobmanager.memory.process.size' = '1600m';
SET 'taskmanager.memory.process.size' = '1728m';
SET 'taskmanager.numberOfTaskSlots' = '4';
SET 'metrics.reporter.prom.class' = 'org.apache.flink.metrics.prometheus.PrometheusReporter';
SET 'metrics.latency.interval' = '1000';
SET 'restart-strategy' = 'fixed-delay';
SET 'restart-strategy.fixed-delay.attempts' = '3';
SET 'akka.ask.timeout' = '60 s';
SET 'high-availability' = 'zookeeper';
SET 'pipeline.jars' = 'file:///opt/connector.jar';
SET 'web.submit.enable' = 'false';
SET 'execution.target' = 'yarn-session';
RESET 'state.backend';
SET 'state.backend.type' = 'rocksdb';
"""
CONFIG_YAML = """
env.java.opts.all: --add-exports=java.base/sun.net.util=ALL-UNNAMED
jobmanager:
  bind-host: localhost
  rpc: {address: localhost, port: 6123}
  memory:
    process: {size: 1600m}
  execution: {failover-strategy: region}
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
  memory:
    process: {size: 1728m}
parallelism: {default: 1}
state:
  backend: rocksdb
rest: {address: localhost, bind-address: localhost}
metrics.reporters: prom
"""


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory", "hashmap"),
        ("org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory", "mapped"),
    ],
)
def test_a_backend_of_state_may_be_called_by_the_class_of_flink(name: str, backend: str) -> None:
    assert config.get({"state.backend.type": name}, "state.backend.type") == backend


def test_a_script_of_flink_1_runs_with_a_note_for_what_it_says_otherwise() -> None:
    notes = {}
    with local_session() as session:
        for statement in parse_script(FLINK_1):
            result = session.execute(statement)
            if note := getattr(result, "note", ""):
                notes[note.split("'")[1]] = note
        found = dict(session.config)
    assert found["state.backend.type"] == "rocksdb"
    assert config.get(found, "state.backend.type") == "mapped"
    assert config.get(found, "parallelism.default") == 2
    assert config.get(found, "restart-strategy.type") == "fixed-delay"
    assert "taskmanager.numberOfTaskSlots" not in found
    assert notes["state.backend"] == "note: 'state.backend' is called 'state.backend.type' here"
    assert notes["state.backend.type"] == "note: 'state.backend.type' = 'rocksdb' is taken as 'mapped'"
    assert notes["execution.target"].startswith(
        "note: 'execution.target' has no effect here: it belongs to the cluster"
    )
    assert "metrics are read from the server" in notes["metrics.reporter.prom.class"]
    assert len(notes) == 19


def test_a_config_yaml_of_flink_is_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG_YAML)
    found = load_configuration(str(path), environment={})
    assert found.get("state.backend.type") == "mapped"
    assert any("'jobmanager.memory.process.size' has no effect here" in note for note in found.notes)


@pytest.mark.parametrize("begin", flink_keys().begins)
def test_no_foreign_setting_is_one_that_has_an_effect(begin: str) -> None:
    key = f"{begin}x" if begin[-1] in ".-" else begin
    assert key not in config.OPTIONS
    assert config.note_of(key, "1").startswith(f"note: '{key}' has no effect here: ")


def test_what_resembles_a_setting_that_has_an_effect_is_told_with_it() -> None:
    assert 'did you mean "slotmanager.number-of-slots.max"?' in config.note_of(
        "slotmanager.number-of-slot.max", "1"
    )
    assert foreign_option("rest.prt") is None
    with pytest.raises(UserError, match=r'unknown option "rest\.prt"'):
        config.settle("rest.prt", "1")


@pytest.mark.parametrize("key", ["security.ssl.enabled"])
def test_encryption_that_is_not_there_is_not_promised(key: str) -> None:
    assert config.settle(key, "false").value == "false"
    with pytest.raises(UserError, match="not supported yet"):
        config.settle(key, "true")


@pytest.mark.parametrize(
    "key",
    ["security.ssl.internal.cert.fingerprint", "security.redaction.additional-keys", "fs.default-scheme"],
)
def test_what_is_promised_and_not_here_is_refused_with_any_value(key: str) -> None:
    with pytest.raises(UserError, match=f'option "{key}" cannot be "x"') as error:
        config.settle(key, "x", at_start=True)
    assert error.value.hint == f"leave it out: {foreign_option(key).description}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "key", ["web.cancel.enable", "blob.service.ssl.enabled", "taskmanager.system-out.mode"]
)
def test_a_key_of_flink_is_not_taken_for_one_of_ours_that_is_little_like_it(key: str) -> None:
    assert "did you mean" not in config.note_of(key, "false")


def test_no_setting_has_an_effect_and_has_none() -> None:
    assert flink_keys().tuning.keys() & config.OPTIONS.keys() == set()
    assert config.note_of("parallelism.default", "2") == ""


@pytest.mark.parametrize("key", flink_keys().tuning)
def test_its_default_fits_its_type_and_a_note_says_why_it_has_no_effect(key: str) -> None:
    config.option(key).parse(flink_keys().tuning[key].default)
    assert config.note_of(key, flink_keys().tuning[key].default).startswith(
        f"note: '{key}' has no effect here: "
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table.exec.mini-batch.enabled", "yes"),
        ("table.exec.mini-batch.allow-latency", "5 parsecs"),
        ("table.exec.mini-batch.size", "many"),
        ("table.optimizer.runtime-filter.min-filter-ratio", "half"),
        ("taskmanager.memory.segment-size", "1 acre"),
    ],
)
def test_a_value_of_another_type_is_refused(key: str, value: str) -> None:
    with pytest.raises(UserError, match=key):
        config.option(key).parse(value)
