"""Keys that Flink renamed: of settings, and of tables, from before 'connector' = '…' on.

A setting is taken by its old name too. That of a table is not, since several stand for one: the hint is what it is
called today.
"""

from __future__ import annotations

from collections.abc import Container

_CHECKPOINTING = "execution.checkpointing"
_RECOVERY = "execution.state-recovery"
_CACHE = "lookup.partial-cache"

SETTINGS: dict[str, str] = {
    "state.backend": "state.backend.type",
    "state.backend.local-recovery": f"{_RECOVERY}.from-local",
    "state.backend.fs.checkpointdir": f"{_CHECKPOINTING}.dir",
    "state.backend.checkpoint-storage": f"{_CHECKPOINTING}.storage",
    "state.checkpoint-storage": f"{_CHECKPOINTING}.storage",
    "state.checkpoints.dir": f"{_CHECKPOINTING}.dir",
    "state.checkpoints.num-retained": f"{_CHECKPOINTING}.num-retained",
    "state.savepoints.dir": f"{_CHECKPOINTING}.savepoint-dir",
    "execution.checkpointing.unaligned": f"{_CHECKPOINTING}.unaligned.enabled",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": f"{_CHECKPOINTING}.checkpoints-after-tasks-finish",
    "execution.savepoint.path": f"{_RECOVERY}.path",
    "execution.savepoint.ignore-unclaimed-state": f"{_RECOVERY}.ignore-unclaimed-state",
    "execution.savepoint-restore-mode": f"{_RECOVERY}.claim-mode",
    "execution.restart-strategy.type": "restart-strategy.type",
    "restart-strategy": "restart-strategy.type",
    "execution.buffer-timeout": "execution.buffer-timeout.interval",
    "execution.type": "execution.runtime-mode",
    "execution.parallelism": "parallelism.default",
    "execution.max-parallelism": "pipeline.max-parallelism",
    "execution.min-idle-state-retention": "table.exec.state.ttl",
    "execution.max-idle-state-retention": "table.exec.state.ttl",
    "taskmanager.tmp.dirs": "io.tmp.dirs",
    "web.port": "rest.port",
    "jobmanager.web.port": "rest.port",
    "jobmanager.web.address": "rest.address",
    "execution.result-mode": "sql-client.execution.result-mode",
    "execution.max-table-result-rows": "sql-client.execution.max-table-result.rows",
}
"""The old key and the new one."""

_TABLES: dict[str, str] = {
    "lookup.cache.max-rows": f"{_CACHE}.max-rows",
    "lookup.cache.ttl": f"{_CACHE}.expire-after-write",
    "lookup.cache.caching-missing-key": f"{_CACHE}.cache-missing-key",
    "connector.lookup.cache.max-rows": f"{_CACHE}.max-rows",
    "connector.lookup.cache.ttl": f"{_CACHE}.expire-after-write",
    "connector.lookup.max-retries": "lookup.max-retries",
    "connector.type": "connector",
    "connector.path": "path",
    "connector.url": "url",
    "connector.table": "table-name",
    "connector.driver": "driver",
    "connector.username": "username",
    "connector.password": "password",
    "connector.read.partition.column": "scan.partition.column",
    "connector.read.partition.num": "scan.partition.num",
    "connector.read.partition.lower-bound": "scan.partition.lower-bound",
    "connector.read.partition.upper-bound": "scan.partition.upper-bound",
    "connector.read.fetch-size": "scan.fetch-size",
    "connector.write.flush.max-rows": "sink.buffer-flush.max-rows",
    "connector.write.flush.interval": "sink.buffer-flush.interval",
    "connector.write.max-retries": "sink.max-retries",
    "format.type": "format",
    "format.field-delimiter": "csv.field-delimiter",
    "format.quote-character": "csv.quote-character",
    "format.escape-character": "csv.escape-character",
    "format.array-element-delimiter": "csv.array-element-delimiter",
    "format.allow-comments": "csv.allow-comments",
    "format.null-literal": "csv.null-literal",
    "format.fail-on-missing-field": "json.fail-on-missing-field",
}
_LEFT_OUT = ("connector.property-version", "format.property-version", "update-mode", "format.derive-schema")


def current_key(key: str) -> str:
    """What the setting is called today."""
    return SETTINGS.get(key, key)


def table_hint(key: str, known: Container[str]) -> str:
    """What to write instead of a table's old key, where `known` are the keys that it may have; empty for another key."""
    if key in _LEFT_OUT:
        return "leave it out"
    new = _TABLES.get(key)
    if key == "format.ignore-parse-errors":
        new = next((k for k in ("csv.ignore-parse-errors", "json.ignore-parse-errors") if k in known), None)
    if new is None or new not in known:
        return ""
    cached = " with 'lookup.cache' = 'PARTIAL'" if new.startswith(_CACHE) else ""
    return f"write '{new}'{cached}, as it is called today"
