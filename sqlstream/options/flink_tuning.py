"""Settings that tune Flink's own machinery: accepted, so that Flink's scripts run, though they have no effect here.

Each changes how fast Flink computes a result and never the result. A setting that would change the result, or that
guarantees something not built here (a bound on memory, a restart), is refused.
"""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType

_B, _I, _N, _D, _M, _S = (
    *(ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DOUBLE),
    *(ConfigType.DURATION, ConfigType.MEMORY_SIZE, ConfigType.STRING),
)

_GROUPS: tuple[tuple[str, tuple[tuple[str, ConfigType, str], ...]], ...] = (
    (
        "every batch is a mini-batch: each key is updated at most once per batch ('execution.batch-rows')",
        (
            ("table.exec.mini-batch.enabled", _B, "false"),
            ("table.exec.mini-batch.allow-latency", _D, "0 ms"),
            ("table.exec.mini-batch.size", _I, "-1"),
            ("table.exec.deduplicate.mini-batch.compact-changes-enabled", _B, "false"),
        ),
    ),
    (
        "operators exchange batches of columns: there are no row objects to reuse",
        (("pipeline.object-reuse", _B, "false"),),
    ),
    (
        "distinct values of a key are counted by one subtask and not split into buckets",
        (
            ("table.optimizer.distinct-agg.split.enabled", _B, "false"),
            ("table.optimizer.distinct-agg.split.bucket-num", _I, "1024"),
            ("table.optimizer.incremental-agg-enabled", _B, "true"),
        ),
    ),
    (
        "of asynchronous operators there are Python functions alone",
        (
            ("table.exec.async-lookup.buffer-capacity", _I, "100"),
            ("table.exec.async-lookup.key-ordered-enabled", _B, "false"),
            ("table.exec.async-lookup.output-mode", _S, "ORDERED"),
            ("table.exec.async-table.max-concurrent-operations", _I, "10"),
            ("table.exec.async-state.enabled", _B, "false"),
        ),
    ),
    (
        "Python functions run in the TaskManager and are called batch by batch ('execution.batch-rows')",
        (
            ("python.fn-execution.bundle.size", _I, "1000"),
            ("python.fn-execution.bundle.time", _I, "1000"),
            ("python.fn-execution.arrow.batch.size", _I, "1000"),
            ("python.fn-execution.buffer.memory.size", _M, "15 mb"),
            ("python.fn-execution.memory.managed", _B, "true"),
            ("python.execution-mode", _S, "process"),
            ("python.operator-chaining.enabled", _B, "true"),
            ("python.metric.enabled", _B, "true"),
        ),
    ),
    (
        "the LOCAL phase aggregates every batch, however many keys it has ('table.optimizer.agg-phase-strategy')",
        (
            ("table.exec.local-hash-agg.adaptive.enabled", _B, "true"),
            ("table.exec.local-hash-agg.adaptive.sampling-threshold", _I, "500000"),
            ("table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold", _N, "0.5"),
        ),
    ),
    (
        "operators work on state where it lies: there is no cache before it, and what is sorted is state",
        (
            ("table.exec.rank.topn-cache-size", _I, "10000"),
            ("table.exec.window-agg.buffer-size-limit", _I, "100000"),
            ("table.exec.sort.async-merge-enabled", _B, "true"),
            ("table.exec.sort.max-num-file-handles", _I, "128"),
            ("table.exec.spill-compression.enabled", _B, "true"),
            ("table.exec.spill-compression.block-size", _M, "64 kb"),
            ("pipeline.cep.sharedbuffer.cache.entry-slots", _I, "1024"),
            ("pipeline.cep.sharedbuffer.cache.event-slots", _I, "1024"),
            ("pipeline.cep.sharedbuffer.cache.statistics-interval", _D, "30 min"),
        ),
    ),
    (
        "operators are compiled kernels: no code is generated for a query",
        (
            ("table.exec.operator-fusion-codegen.enabled", _B, "false"),
            ("table.generated-code.max-length", _I, "4000"),
        ),
    ),
    (
        "joins run in the order in which they are written, and each has two inputs",
        (
            ("table.optimizer.join-reorder-enabled", _B, "false"),
            ("table.optimizer.bushy-join-reorder-threshold", _I, "12"),
            ("table.optimizer.multi-join.enabled", _B, "false"),
            ("table.optimizer.multiple-input-enabled", _B, "true"),
        ),
    ),
    (
        "joins keep the rows of both inputs: no delta join asks a store for them",
        (
            ("table.optimizer.delta-join.strategy", _S, "AUTO"),
            ("table.exec.delta-join.cache-enabled", _B, "true"),
            ("table.exec.delta-join.left.cache-size", _I, "10000"),
            ("table.exec.delta-join.right.cache-size", _I, "10000"),
        ),
    ),
    (
        "each batch carries its watermark",
        (("pipeline.auto-watermark-interval", _D, "200 ms"),),
    ),
    (
        "a join of intervals forgets rows as soon as no other row can meet them",
        (("table.exec.interval-join.min-cleanup-interval", _D, "0 ms"),),
    ),
    (
        "a sink takes rows and hands on no time of theirs",
        (("table.exec.sink.rowtime-inserter", _S, "ENABLED"),),
    ),
    (
        "rows of a key are kept in order and found by a hash",
        (
            ("table.exec.sink.upsert-materialize-strategy.type", _S, "LEGACY"),
            ("table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high", _I, "400"),
            ("table.exec.sink.upsert-materialize-strategy.adaptive.threshold.low", _I, "300"),
        ),
    ),
    (
        "an operator finds its state again by a digest of what it means",
        (
            ("table.exec.uid.generation", _S, "PLAN_ONLY"),
            ("table.exec.uid.format", _S, "<id>_<transformation>"),
            ("pipeline.auto-generate-uids", _B, "true"),
        ),
    ),
    (
        "state of a Python function lies in the process that calls it",
        (
            ("python.state.cache-size", _I, "1000"),
            ("python.map-state.read-cache-size", _I, "1000"),
            ("python.map-state.write-cache-size", _I, "1000"),
            ("python.map-state.iterate-response-batch-size", _I, "1000"),
        ),
    ),
    (
        "OVER has one implementation",
        (("table.exec.unbounded-over.version", _I, "2"),),
    ),
    (
        "names and descriptions of vertices have one form",
        (
            ("table.exec.simplify-operator-name-enabled", _B, "true"),
            ("pipeline.vertex-description-mode", _S, "TREE"),
            ("pipeline.vertex-name-include-index-prefix", _B, "false"),
        ),
    ),
    (
        "it tunes Flink's batch execution",
        (
            ("execution.batch-shuffle-mode", _S, "ALL_EXCHANGES_BLOCKING"),
            ("execution.batch.adaptive.auto-parallelism.enabled", _B, "true"),
            ("execution.batch.adaptive.auto-parallelism.min-parallelism", _I, "1"),
            ("execution.batch.adaptive.auto-parallelism.max-parallelism", _I, "128"),
            ("execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task", _M, "16 mb"),
            ("execution.batch.speculative.enabled", _B, "false"),
            ("execution.sort-partition.memory", _M, "128 mb"),
            ("execution.sort-keyed-partition.memory", _M, "128 mb"),
            ("table.exec.disabled-operators", _S, ""),
            ("table.optimizer.adaptive-broadcast-join.strategy", _S, "auto"),
            ("table.optimizer.skewed-join-optimization.strategy", _S, "auto"),
            ("table.optimizer.dynamic-filtering.enabled", _B, "true"),
            ("table.optimizer.join.broadcast-threshold", _I, "1048576"),
            ("table.optimizer.runtime-filter.enabled", _B, "false"),
            ("table.optimizer.runtime-filter.max-build-data-size", _M, "150 mb"),
            ("table.optimizer.runtime-filter.min-filter-ratio", _N, "0.5"),
            ("table.optimizer.runtime-filter.min-probe-data-size", _M, "10 gb"),
            ("table.optimizer.skewed-join-optimization.skewed-factor", _N, "4.0"),
            ("table.optimizer.skewed-join-optimization.skewed-threshold", _M, "256 mb"),
        ),
    ),
    (
        "sources report no statistics of their values",
        (("table.optimizer.source.report-statistics-enabled", _B, "true"),),
    ),
    (
        "'table.optimizer.reuse-sub-plan-enabled' decides whether equal parts of a plan run once",
        (
            ("table.optimizer.reuse-source-enabled", _B, "true"),
            ("table.optimizer.reuse-sink-enabled", _B, "true"),
            ("table.optimizer.reuse-optimize-block-with-digest-enabled", _B, "false"),
            ("table.optimizer.union-all-as-breakpoint-enabled", _B, "true"),
            ("table.optimizer.sql2rel.project-merge.enabled", _B, "false"),
        ),
    ),
    (
        "a batch is sent as soon as an operator emits it",
        (
            ("execution.buffer-timeout.enabled", _B, "true"),
            ("execution.buffer-timeout.interval", _D, "100 ms"),
        ),
    ),
    (
        "channels are bounded in bytes, not in buffers of a fixed size ('taskmanager.network.memory.max-buffered-bytes')",
        (
            ("taskmanager.memory.segment-size", _M, "32 kb"),
            ("taskmanager.network.memory.buffer-debloat.enabled", _B, "false"),
            ("taskmanager.network.memory.buffer-debloat.target", _D, "1 s"),
        ),
    ),
    (
        "the gateway starts a thread when a statement needs one, up to 'sql-gateway.worker.threads.max', and keeps it",
        (
            ("sql-gateway.worker.threads.min", _I, "5"),
            ("sql-gateway.worker.keepalive-time", _D, "5 min"),
        ),
    ),
    (
        "a checkpoint writes one file for each task that has state",
        (
            ("execution.checkpointing.cleaner.parallel-mode", _B, "true"),
            ("execution.checkpointing.data-inline-threshold", _M, "20 kb"),
            ("execution.checkpointing.write-buffer-size", _I, "4096"),
            ("execution.checkpointing.file-merging.enabled", _B, "false"),
            ("execution.checkpointing.file-merging.max-file-size", _M, "32 mb"),
        ),
    ),
    (
        "no JVM runs jobs of streams",
        (
            ("env.java.opts.all", _S, ""),
            ("env.java.home", _S, ""),
            ("pipeline.closure-cleaner-level", _S, "RECURSIVE"),
            ("pipeline.force-avro", _B, "false"),
            ("pipeline.force-kryo", _B, "false"),
            ("pipeline.generic-types", _B, "true"),
        ),
    ),
)  # fmt: skip

TUNING: dict[str, ConfigOption] = {
    key: ConfigOption(key, kind, default, reason) for reason, keys in _GROUPS for key, kind, default in keys
}
"""By key; the description says why it has no effect."""

_FIXED: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("table.sql-dialect", "default", ("hive",), "statements are written in Flink's default dialect"),
    (
        *("table.exec.legacy-cast-behaviour", "DISABLED", ("ENABLED",)),
        "CAST of what is no value of the type fails, and TRY_CAST gives NULL",
    ),
    (
        *("table.exec.legacy-bytes-to-string-cast", "false", ("true",)),
        "CAST of bytes that are no UTF-8 fails, TRY_CAST gives NULL, and MAKE_VALID_UTF8 replaces them",
    ),
    (
        *("table.legacy-nested-row-nullability", "false", ("true",)),
        "NOT NULL of a field of a ROW is a part of its type",
    ),
    (
        *("table.exec.sink.keyed-shuffle", "AUTO", ("NONE", "FORCE")),
        "changes of one primary key reach a sink in their order, whatever its parallelism is",
    ),
    (
        *("table.exec.deduplicate.insert-update-after-sensitive-enabled", "true", ("false",)),
        "the first row of a key is always an insertion",
    ),
    (
        *("table.rtas-ctas.atomicity-enabled", "false", ("true",)),
        "CREATE TABLE AS creates the table before the job starts, and leaves it when the job fails",
    ),
    (
        *("table.plan.compile.catalog-objects", "ALL", ("SCHEMA", "IDENTIFIER")),
        "a compiled plan holds all that it needs of its tables",
    ),
    (
        *("table.plan.restore.catalog-objects", "ALL", ("ALL_ENFORCED", "IDENTIFIER")),
        "a compiled plan holds all that it needs of its tables",
    ),
)

TUNING |= {
    key: ConfigOption(key, ConfigType.ENUM, only, reason, choices=(only,), refused=others)
    for key, only, others, reason in _FIXED
}
"""Those that would change results: they have the one value by which nothing changes, and others are refused with the reason."""
