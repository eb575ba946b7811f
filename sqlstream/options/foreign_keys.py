"""Settings of parts that Flink has and that are not here: taken with a note, so that its scripts and its config.yaml run.

They are those of Flink 2 and of Flink 1. None of them would change a result. One that promises what is not given here
(encryption) is taken with the value by which it promises nothing.
"""

from __future__ import annotations

from collections.abc import Container

from sqlstream.config_option import ConfigOption, ConfigType

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "processes are started by a command or a service manager",
        ("kubernetes.", "yarn.", "containerized.", "mesos.", "minicluster.", "external-resource.", "external-resources"),
    ),
    (
        "no JVM runs jobs of streams",
        (
            *("env.", "classloader.", "jmx.", "compiler.", "user.artifacts.", "flink.hadoop.", "flink.yarn."),
            *("security.context.", "security.module.", "pipeline.jars", "pipeline.classpaths", "pipeline.cached-files"),
            *("pipeline.serialization-config", "pipeline.force-kryo-avro", "pipeline.default-kryo-serializers"),
            *("pipeline.registered-", "table.resources.", "taskmanager.jvm-", "execution.job-listeners"),
            *("execution.job-status-changed-listeners", "jobmanager.failure-enrichers", "metrics.internal."),
            *("table.catalog-modification.", "shuffle-service-factory.", "cluster.intercept-user-system-exit"),
            *("cluster.processes.", "cluster.uncaught-exception-handling", "cluster.thread-dump."),
        ),
    ),
    (
        "a JobManager takes the memory that it needs",
        ("jobmanager.memory.", "jobmanager.heap."),
    ),
    (
        "the memory of a TaskManager for state is 'taskmanager.memory.managed.size'",
        ("taskmanager.memory.", "taskmanager.heap.", "taskmanager.debug.", "taskmanager.cpu."),
    ),
    (
        "channels are bounded in bytes ('taskmanager.network.memory.max-buffered-bytes', 'taskmanager.memory.network.max')",
        ("taskmanager.network.", "taskmanager.net."),
    ),
    (
        "it tunes Flink's batch execution",
        (
            *("taskmanager.runtime.", "execution.batch.", "execution.batch-shuffle-mode", "table.exec.shuffle-mode"),
            *("slow-task-detector.", "jobmanager.partition.", "job-event.store."),
        ),
    ),
    (
        "messages are ours: what bounds them are heartbeats and limits of their own",
        ("pekko.", "akka.", "blob.", "cluster.services.", "cluster.registration.", "cluster.io-pool.", "client."),
    ),
    (
        "there is one JobManager, whose jobs and catalog a restart finds again ('sqlstream.data-dir')",
        (
            *("high-availability", "zookeeper.", "recovery.", "job-result-store.", "application-result-store."),
            *("completed-application-store.", "cluster.id", "jobmanager.resource-id", "cleanup-strategy."),
            "taskmanager.resource-id",
        ),
    ),
    (
        "a server remembers 'jobstore.max-capacity' ended jobs and keeps no archive",
        ("historyserver.", "jobmanager.archive.", "jobstore.cache-size", "jobstore.expiration-time", "jobstore.type"),
    ),
    (
        "metrics are read from the server: GET /metrics is Prometheus', and the REST API has them by vertex",
        ("metrics.", "events.", "traces."),
    ),
    (
        "users have tokens or come by a file of passwords ('sqlstream.server' options), and no Kerberos",
        ("security.kerberos.", "security.delegation.", "security.redaction."),
    ),
    (
        "certificates are files in PEM form ('security.ssl.rest.certificate-file', 'security.ssl.internal.certificate-file')",
        ("security.ssl.",),
    ),
    (
        "a path names its file system by its scheme, and s3.access-key, s3.secret-key and s3.endpoint its store",
        ("fs.", "s3.", "s3a.", "hadoop."),
    ),
    (
        "state lies in columns by key: 'state.backend.type' and 'taskmanager.memory.managed.size' rule it",
        ("state.backend.",),
    ),
    (
        "a checkpoint writes only what has changed since the one before",
        (
            *("state.changelog.", "execution.checkpointing.incremental", "execution.checkpointing.file-merging."),
            "state.checkpoint.cleaner.",
        ),
    ),
    (
        "a checkpoint has one form, in a directory of its job",
        (
            *("execution.checkpointing.create-subdir", "execution.checkpointing.during-recovery."),
            *("execution.checkpointing.unaligned.", "execution.checkpointing.sync-phase-timeout"),
            *("execution.checkpointing.interval-during-backlog", "execution.state-recovery.without-channel-state."),
        ),
    ),
    ("the metrics of an operator say what its state costs", ("state.latency-track.", "state.size-track.")),
    (
        "no provider of models is built in",
        ("table.exec.async-ml-predict.", "table.exec.async-vector-search."),
    ),
    ("materialized tables are not here", ("materialized-table.", "table.materialized-table.")),
    (
        "the scheduler deploys a job when its slots are there, and a rescale is asked for by REST",
        (
            *("jobmanager.adaptive-", "jobmanager.scheduler", "scheduler-mode", "scheduler.", "jobmanager.execution."),
            *("slotmanager.", "slot.", "resourcemanager.", "cluster.evenly-spread-out-slots", "taskmanager.load-balance."),
            *("cluster.fine-grained-resource-management.", "jobmanager.io-pool.", "jobmanager.future-pool."),
            *("jobmanager.retrieve-taskmanager-hostname", "web.adaptive-scheduler."),
        ),
    ),
    (
        "ports and addresses of a cluster are 'jobmanager.rpc.address', 'jobmanager.rpc.port' and 'taskmanager.host'",
        (
            *("jobmanager.rpc.bind-port", "taskmanager.rpc.", "taskmanager.data.", "taskmanager.collect-sink."),
            *("taskmanager.hostname", "query.server.", "queryable-state."),
        ),
    ),
    (
        "the REST API has bounds of its own ('rest.server.max-content-length')",
        (
            *("rest.async.", "rest.await-leader-timeout", "rest.cache.", "rest.client.", "rest.connection-timeout"),
            *("rest.flamegraph.", "rest.idleness-timeout", "rest.path", "rest.profiling.", "rest.retry."),
            *("rest.server.numThreads", "rest.server.thread-priority", "rest.url-prefix"),
        ),
    ),
    (
        "the console is the server's own",
        (
            *("web.access-control-allow-origin", "web.cancel.", "web.checkpoints.", "web.exception-history-size"),
            *("web.history", "web.log.", "web.refresh-interval", "web.rescale.", "web.submit.", "web.timeout"),
            *("web.tmpdir", "web.upload.", "web.ssl.", "web.address", "jobmanager.web."),
        ),
    ),
    (
        "logs have options of their own ('sqlstream.log.level')",
        ("taskmanager.log.", "taskmanager.system-out.", "mdc.", "python.logging."),
    ),
    (
        "a cancelled task ends within 'task.cancellation.timeout'",
        ("task.cancellation.interval", "task.cancellation.timers.timeout", "taskmanager.slot.timeout"),
    ),
    ("heartbeats are 'heartbeat.interval' and 'heartbeat.timeout'", ("heartbeat.rpc-failure-threshold",)),
    (
        "Python functions run in the Python of the TaskManagers: install packages there, and ship modules with 'python.files'",
        (
            *("python.archives", "python.client.executable", "python.executable", "python.pythonpath"),
            *("python.requirements", "python.systemenv.", "python.profile."),
        ),
    ),
    ("there is one planner", ("execution.planner", "table.planner")),
    (
        "a table has event time by its WATERMARK, and processing time by PROCTIME()",
        ("execution.time-characteristic", "pipeline.time-characteristic"),
    ),
    (
        "'table.dml-sync' waits for an INSERT, and `sqlstream run` always does",
        (
            *("execution.attached", "execution.shutdown-on-", "execution.terminate-application-"),
            *("execution.program-config.", "execution.submit-failed-job-on-application-error"),
        ),
    ),
    ("a watermark is aligned over all of its sources", ("pipeline.watermark-alignment.",)),
    ("tables have 'scan.parallelism' and 'sink.parallelism'", ("pipeline.jobvertex-parallelism-overrides",)),
    ("vertices of a job have one number of key groups", ("pipeline.operator-chaining.chain-operators-",)),
    ("sources begin when their tasks run", ("pipeline.sources.pause-until-first-checkpoint",)),
    ("no function reads it", ("pipeline.global-job-parameters",)),
    (
        "the time limit of a lookup is its connector's",
        ("table.exec.async-lookup.timeout", "table.exec.async-table."),
    ),
    ("* is every column, and a view names some of them", ("table.column-expansion-strategy",)),
    ("USE CATALOG and USE say it", ("execution.current-catalog", "execution.current-database")),
    (
        "the first catalog and database are default_catalog and default_database",
        ("table.builtin-catalog-name", "table.builtin-database-name"),
    ),
    ("a function has as many tables as it declares", ("table.optimizer.ptf.",)),
    ("process.working-dir is the JobManager's too", ("process.jobmanager.",)),
    ("a fault of a commit is retried as the restart strategy says", ("sink.committer.",)),
)  # fmt: skip
"""The reason, and the keys, or where keys begin (up to a dot or hyphen), that have no effect for it."""

_PREFIXES = tuple((begin, reason) for reason, begins in _FAMILIES for begin in begins)
WHOLE = frozenset(begin for begin, _ in _PREFIXES if begin[-1] not in ".-")
"""Keys that are written out above: no other key is meant by them."""
_ENCRYPTION = ("security.ssl.enabled", "security.ssl.rest.authentication-enabled")


def foreign_option(key: str) -> ConfigOption | None:
    """The option of a key that has no effect here, whose description says why; None for another key.

    >>> foreign_option("metrics.reporter.prom.port").type.value, foreign_option("rest.prt")
    ('String', None)
    """
    if key in _ENCRYPTION:
        what = "'security.ssl.rest.enabled' and 'security.ssl.internal.enabled' encrypt connections"
        return ConfigOption(key, ConfigType.ENUM, "false", what, choices=("false",), refused=("true",))
    for begin, reason in _PREFIXES:
        if key == begin or key.startswith(begin if begin[-1] in ".-" else f"{begin}."):
            return ConfigOption(key, ConfigType.STRING, "", reason)
    return None


# Keys that Flink renamed: of settings, and of tables, from before 'connector' = '…' on.
#
# A setting is taken by its old name too. That of a table is not, since several stand for one: the hint is what it is
# called today.


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
