"""What the product makes of its settings: all of it with the defaults, and for each option what another value changes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlstream.client.configuration import Configuration, Origin, Setting
from sqlstream.client.gateway.settings import statement_settings
from sqlstream.client.rest.checkpoints import checkpoint_config
from sqlstream.client.rest.job_view import restart_strategy_text
from sqlstream.client.server.server_config import cluster_size, server_config
from sqlstream.config import OPTIONS
from sqlstream.config_option import ConfigOption, ConfigType
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.batch.duckdb import database_config
from sqlstream.runtime.batch.spark.settings import launch_keys, launch_settings, spark_keys
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import (
    CheckpointSettings,
    checkpoint_settings,
)
from sqlstream.runtime.jobmanager.restart_strategy import restart_strategy_of

GOLDEN = Path(__file__).parent / "derived_settings.out"
CORES = 8
OWN_VALUES = {
    "cpu.cores": "3",
    "sqlstream.data-dir": "/data",
    "sql-gateway.endpoint.rest.bind-port": "9001-9003,9010",
    "rest.bind-port": "9004",
}
"""Where the machine has a say, or not every text is a value."""
SEVERAL = (
    {"restart-strategy.type": "fixed-delay"},
    {"restart-strategy.type": "fixeddelay", "restart-strategy.fixed-delay.attempts": "7"},
    {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.delay": "9 s",
        "restart-strategy.failure-rate.max-failures-per-interval": "4",
        "restart-strategy.failure-rate.failure-rate-interval": "2 min",
    },
    {
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "3 s",
        "restart-strategy.exponential-delay.max-backoff": "4 min",
        "restart-strategy.exponential-delay.backoff-multiplier": "3.5",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "5 min",
        "restart-strategy.exponential-delay.jitter-factor": "0.25",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": "6",
    },
    {"execution.checkpointing.interval": "10 ms", "execution.checkpointing.dir": "/c/"},
    {"restart-strategy.type": "none", "execution.checkpointing.interval": "5 s"},
    {"execution.checkpointing.min-pause": "2 s", "execution.checkpointing.max-concurrent-checkpoints": "3"},
    {"execution.checkpointing.unaligned.enabled": "true", "execution.checkpointing.max-concurrent-checkpoints": "2"},
    {"sql-gateway.endpoint.rest.port": "8100", "rest.port": "8100"},
    {"sql-gateway.endpoint.rest.bind-address": "0.0.0.0", "rest.port": "8100"},
    {"rest.bind-address": "::", "rest.port": "8100"},
    {"slotmanager.number-of-slots.max": "5"},
    {"slotmanager.number-of-slots.max": "2000"},
    {"slotmanager.number-of-slots.max": "6", "taskmanager.numberOfTaskSlots": "3"},
    {"slotmanager.number-of-slots.max": "6", "slotmanager.number-of-slots.min": "6"},
    {"execution.target": "spark", "taskmanager.numberOfTaskSlots": "3"},
    {"spark.master": "spark://host:7077", "spark.executor.memory": "3g"},
    {"spark.remote": "sc://host:15002"},
    {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "5"},
)  # fmt: skip


def derived(given: Mapping[str, str]) -> dict[str, Any]:
    """All that is made of the settings, flat."""
    values = {"cpu.cores": "2", "sqlstream.data-dir": "/home", **given}
    configuration = Configuration({k: Setting(k, v, Origin.FILE, "line 1") for k, v in values.items()})
    parts: dict[str, Callable[[], Any]] = {
        "server": lambda: dataclasses.asdict(server_config(configuration)),
        "cluster size": lambda: [
            dataclasses.asdict(cluster_size(configuration, CORES, n)) for n in (None, 3)
        ],
        "checkpoints": lambda: _checkpoints(values),
        "shown checkpoints": lambda: checkpoint_config(values),
        "restarts": lambda: _restarts(values),
        "shown restarts": lambda: restart_strategy_text(values),
        "duckdb": lambda: database_config(values, "/tmp"),
        "spark": lambda: launch_settings(launch_keys(spark_keys(values)), "/tmp", "/run", CORES, 1 << 34),
        "for a job": lambda: dict.fromkeys(configuration.for_jobs, True),
        "for a target": lambda: dict.fromkeys(configuration.for_target, True),
        "for a statement": lambda: dict.fromkeys(statement_settings(values), True),
    }
    return {name: flat for part, make in parts.items() for name, flat in _flat(part, _made(make))}


def _made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except UserError as error:
        return f"{error.code} {error.message}"


def _checkpoints(values: Mapping[str, str]) -> Any:
    job = JobGraph(job_id="j1", name="job", vertices=(), edges=(), config=dict(values))
    found: CheckpointSettings = checkpoint_settings(job, "/checkpoints")
    return {**dataclasses.asdict(found), "is_enabled": found.is_enabled}


def _restarts(values: Mapping[str, str]) -> Any:
    """The strategy and its fields, without what only one run has."""
    strategy = restart_strategy_of(values, "seed")
    inner = getattr(strategy, "_strategy", strategy)
    fields = {name: str(value) for name, value in vars(inner).items() if name != "_fate"}
    return {"is": type(inner).__name__, "unless permanent": inner is not strategy, **fields}


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    items = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if items is None or not value or (isinstance(value, list) and isinstance(value[0], str)):
        yield name, json.dumps(value, default=str)
        return
    for key, item in items:
        yield from _flat(f"{name} / {key}", item)


def another(option: ConfigOption) -> str | None:
    """A value that is not the default, None where there is no other."""
    if option.key in OWN_VALUES:
        return OWN_VALUES[option.key]
    default = option.parse(option.default) if option.default else None
    match option.type:
        case ConfigType.BOOLEAN:
            return str(not default).lower()
        case ConfigType.ENUM:
            return next((c for c in option.choices if c.lower() != option.default.lower()), None)
        case ConfigType.INTEGER | ConfigType.DURATION | ConfigType.MEMORY_SIZE:
            unit = {ConfigType.DURATION: " ms", ConfigType.MEMORY_SIZE: " b"}.get(option.type, "")
            wanted = max(int(default or 0) + 1, option.minimum or 0)
            if option.maximum is not None and wanted > option.maximum:
                wanted = option.maximum - 1
            return f"{wanted}{unit}"
        case ConfigType.DOUBLE:
            return str(float(default or 0) / 2 + 0.3)
        case ConfigType.TIME_ZONE:
            return "Asia/Tokyo"
        case ConfigType.STRING:
            return "other"


def changes(given: Mapping[str, str], usual: Mapping[str, str]) -> str:
    found = derived(given)
    lines = [
        f"  {name}: {found.get(name, 'gone')}"
        for name in {**usual, **found}
        if found.get(name) != usual.get(name)
    ]
    return "\n".join([" ".join(f"{key}={value}" for key, value in given.items()), *lines])


def test_the_settings_that_parts_work_with_are_those_in_the_golden_file(
    golden: Callable[[Path, str], None],
) -> None:
    usual = derived({})
    blocks = ["defaults\n" + "\n".join(f"  {name}: {value}" for name, value in usual.items())]
    for option in OPTIONS.values():
        value = another(option)
        if value is not None:
            blocks.append(changes({option.key: value}, usual))
    blocks += [changes(given, usual) for given in SEVERAL]
    golden(GOLDEN, "\n\n".join(blocks) + "\n")
