"""Keys that Flink renamed: of settings, and of tables, from before 'connector' = '…' on. What they are called today is the hint.

The old names are not taken: a table or script that is read here and there has the same meaning with the new ones.
"""

from __future__ import annotations

from collections.abc import Container

_CHECKPOINTING = "execution.checkpointing"
_RECOVERY = "execution.state-recovery"
_CACHE = "lookup.partial-cache"

SETTINGS: dict[str, str] = {
    "state.backend": "state.backend.type",
    "state.backend.local-recovery": f"{_RECOVERY}.from-local",
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
    "execution.result-mode": "sql-client.execution.result-mode",
    "execution.max-table-result-rows": "sql-client.execution.max-table-result.rows",
}
"""The old key and the new one."""

_NO_NEED = {
    **dict.fromkeys(("execution.planner", "table.planner"), "leave it out: there is one planner"),
    **dict.fromkeys(
        ("execution.time-characteristic", "pipeline.time-characteristic"),
        "leave it out: a table has event time by its WATERMARK, and processing time by PROCTIME()",
    ),
    **dict.fromkeys(
        ("state.backend.incremental", f"{_CHECKPOINTING}.incremental"),
        "leave it out: a checkpoint refers to the files of earlier ones for state that has not changed",
    ),
    **dict.fromkeys(
        ("table.exec.shuffle-mode", "execution.batch-shuffle-mode"),
        "leave it out: a batch engine exchanges rows in its own way",
    ),
    **dict.fromkeys(
        ("pipeline.jars", "pipeline.classpaths", "table.resources.download-dir"),
        "leave it out: connectors and functions are Python modules ('python.files'), and no JVM runs them",
    ),
    **dict.fromkeys(
        ("execution.attached", "execution.shutdown-on-attached-exit"),
        "leave it out: 'table.dml-sync' waits for an INSERT, and `sqlstream run` always does",
    ),
    "table.column-expansion-strategy": "name the columns, or make a view that names them: * is every column",
    "table.exec.async-lookup.timeout": "set the time limit of the connector, or 'lookup.max-retries' of the table",
    "pipeline.jobvertex-parallelism-overrides": "give tables 'scan.parallelism' and 'sink.parallelism'",
    "execution.current-catalog": "write USE CATALOG",
    "execution.current-database": "write USE",
}

_BACKEND = "leave it out: state lies in columns by key; 'state.backend.type' and 'taskmanager.memory.managed.size' rule it"
_FAMILIES = (
    ("state.backend.rocksdb.", _BACKEND),
    ("state.backend.forst.", _BACKEND),
    ("state.changelog.", "leave it out: a checkpoint writes only what has changed since the one before"),
    ("state.latency-track.", "leave it out: the metrics of an operator say what its state costs"),
    ("state.size-track.", "leave it out: the metric stateBytes says it"),
    ("table.exec.async-ml-predict.", "leave it out: no provider of models is built in"),
    ("table.exec.async-vector-search.", "leave it out: no provider of models is built in"),
)
"""Where keys begin, and the hint for all of them."""

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


def setting_hint(key: str) -> str:
    """What to write instead of a setting's old key; empty for another key."""
    new = SETTINGS.get(key)
    if new is None:
        return _NO_NEED.get(key, "") or next((hint for begin, hint in _FAMILIES if key.startswith(begin)), "")
    return f"write '{new}', as it is called today"


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
