"""The settings with type, default, bounds and scope; keys and defaults are Flink's where Flink has them.

Unknown keys are refused. Keys that only tune Flink's own machinery, or belong to parts that are not here, are accepted with a
note (options/flink_keys.txt).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlstream.config_option import ConfigOption, ConfigType, Scope
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.options.checkpointing_options import CHECKPOINTING_OPTIONS, STORE_OPTIONS
from sqlstream.options.flink_keys import flink_keys, foreign_option
from sqlstream.options.network_options import NETWORK_OPTIONS
from sqlstream.options.reporters import REPORTER_OPTIONS, reporter_option
from sqlstream.options.scheduling_options import SCHEDULING_OPTIONS
from sqlstream.options.server_options import SERVER_OPTIONS
from sqlstream.options.state_options import STATE_OPTIONS
from sqlstream.spark import is_spark_key

_B, _I, _D, _M, _S, _E, _Z = (
    ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DURATION, ConfigType.MEMORY_SIZE,
    ConfigType.STRING, ConfigType.ENUM, ConfigType.TIME_ZONE,
)  # fmt: skip

OPTIONS: dict[str, ConfigOption] = {
    o.key: o
    for o in (
        ConfigOption("execution.runtime-mode", _E, "STREAMING",
                     "Whether statements run as streams or in batch; AUTOMATIC: in batch when all their tables end.",
                     choices=("STREAMING", "BATCH", "AUTOMATIC"), scope=Scope.SESSION, deprecated=("execution.type",)),
        ConfigOption("execution.batch.engine", _E, "auto",
                     "What computes a batch statement; auto takes DuckDB for input of at most execution.batch.duckdb-bytes-max, "
                     "else Spark.", choices=("auto", "duckdb", "spark"), scope=Scope.SESSION),
        ConfigOption("execution.batch.duckdb-bytes-max", _M, "10 gb",
                     "The largest input, as its connectors estimate it, for which execution.batch.engine = auto takes DuckDB.",
                     minimum=0, scope=Scope.SESSION),
        ConfigOption("execution.batch.duckdb-memory-max", _M, "2 gb",
                     "Memory that DuckDB takes for one query; beyond it, rows are written to temporary files.",
                     minimum=64 * 2**20),
        ConfigOption("execution.batch.duckdb-threads", _I, "-1",
                     "Threads of DuckDB for one query; -1 or 0 takes one for each processor.", minimum=-1, maximum=1024),
        ConfigOption("execution.batch.native-relations.enabled", _B, "true",
                     "Whether batch engines read tables by themselves, where the rows are those of sqlstream's readers."),
        ConfigOption("execution.files-are-shared", _B, "false",
                     "Whether all machines of a cluster see the same files below the paths of tables.",
                     deprecated=("execution.batch.spark-files-are-shared",)),
        ConfigOption("execution.target", _E, "local",
                     "Where jobs run: in processes of this machine, remote, on the running server of this machine and user, "
                     "in the executors of a Spark cluster, or, of a server, standalone: in TaskManagers that join it.",
                     choices=("local", "remote", "spark", "standalone"), refused=("yarn-session", "yarn-application",
                     "kubernetes-session", "kubernetes-application"), scope=Scope.CLUSTER),
        ConfigOption("sqlstream.metrics.operator-cpu", _B, "false",
                     "Count the processor time of each operator (cpuTimeNs among its metrics), as EXPLAIN ANALYZE does."),
        ConfigOption("latency.target", _D, "0 ms",
                     "How long 99 of 100 rows of a streaming job may take from its sources to its sinks: the job chooses how "
                     "many rows a batch has, how many wait between tasks and how checkpoints are aligned, but for what is set; "
                     "0 leaves that to the settings.", minimum=0, maximum=3_600_000),
        ConfigOption("metrics.latency.interval", _D, "0 ms",
                     "How often sources send markers that measure how long rows wait on their way; 0 sends none.", minimum=0),
        ConfigOption("metrics.latency.granularity", _E, "operator",
                     "Which latencies an operator keeps apart: those of no sources, of source operators, or of their subtasks.",
                     choices=("single", "operator", "subtask")),
        ConfigOption("metrics.latency.history-size", _I, "128",
                     "Over how many of the newest latencies an operator has statistics.", minimum=1, maximum=10_000),
        ConfigOption("sqlstream.verify.keys-max", _I, "5",
                     "How many of the keys whose rows differ VERIFY shows.", minimum=1, maximum=1000, scope=Scope.SESSION),
        ConfigOption("sqlstream.verify.contributing-rows-max", _I, "10",
                     "Rows of each table that EXPLAIN WHY shows, at least 1, and VERIFY for a key whose rows differ: 0 for none.",
                     minimum=0, maximum=10_000, scope=Scope.SESSION),
        ConfigOption("sqlstream.verify.float-tolerance", ConfigType.DOUBLE, "0",
                     "By how much FLOAT and DOUBLE values may differ in VERIFY, relative to the larger one.",
                     minimum=0, scope=Scope.SESSION),
        ConfigOption("parallelism.default", _I, "1", "Parallelism of every operator that nothing else decides.",
                     minimum=1, maximum=32768, scope=Scope.SESSION, deprecated=("execution.parallelism",)),
        ConfigOption("table.exec.resource.default-parallelism", _I, "-1",
                     "Parallelism of SQL operators; -1 takes parallelism.default.", minimum=-1, maximum=32768,
                     scope=Scope.SESSION),
        ConfigOption("pipeline.name", _S, "", "Name of the next jobs; empty makes one from the statement.",
                     scope=Scope.SESSION),
        ConfigOption("pipeline.max-parallelism", _I, "-1",
                     "Number of key groups, fixed for the life of a job; -1 takes 128 or, from a parallelism of 86 on, the next"
                     " power of two above 1.5 times the parallelism.", minimum=-1, maximum=32768, scope=Scope.SESSION,
                     deprecated=("execution.max-parallelism",)),
        ConfigOption("python.files", _S, "",
                     "Python modules that go with each job that calls a Python function: .py and .zip files and directories, "
                     "separated by commas.", scope=Scope.SESSION),
        ConfigOption("pipeline.cached-files", _S, "",
                     "Files that go with each job that calls a Python function, which finds them by name (cached_file): "
                     "'name:model,path:models/m.onnx;name:words,path:s3://bucket/words.txt'."),
        ConfigOption("sqlstream.artifacts.max-size", _M, "2 gb",
                     "The most bytes of one file of pipeline.cached-files.", minimum=0),
        ConfigOption("sqlstream.artifacts.cache-size", _M, "16 gb",
                     "The most bytes of all such files at the JobManager, and in the cache of each host that runs tasks.",
                     minimum=0, scope=Scope.CLUSTER),
        ConfigOption("table.exec.async-scalar.max-concurrent-operations", _I, "10",
                     "How many calls of an async Python function one subtask waits for at a time.", minimum=1, maximum=10_000),
        ConfigOption("table.exec.async-scalar.timeout", _D, "3 min",
                     "A call of an async Python function that takes longer, with its retries, fails the job.", minimum=1),
        ConfigOption("table.exec.async-scalar.retry-strategy", _E, "FIXED_DELAY",
                     "Whether a call of an async Python function that fails is made again.",
                     choices=("FIXED_DELAY", "NO_RETRY")),
        ConfigOption("table.exec.async-scalar.retry-delay", _D, "100 ms", "How long to wait before a call is made again.",
                     minimum=0),
        ConfigOption("table.exec.async-scalar.max-attempts", _I, "3",
                     "How often a call of an async Python function is made at the most.", minimum=1, maximum=1000),
        ConfigOption("table.exec.async-ml-predict.max-concurrent-operations", _I, "10",
                     "How many requests to the server of a model one subtask waits for at a time.", minimum=1, maximum=1000),
        ConfigOption("table.exec.async-ml-predict.timeout", _D, "3 min",
                     "A request to the server of a model fails when it takes longer with its retries.", minimum=1),
        ConfigOption("table.exec.regex.timeout", _D, "1 s",
                     "A regular expression with look-around, a back-reference or a possessive quantifier that takes longer for"
                     " one text fails the job; others are matched in linear time.", minimum=1),
        ConfigOption("pipeline.operator-chaining.enabled", _B, "true", "Run operators joined by FORWARD edges in one task.",
                     scope=Scope.SESSION, deprecated=("pipeline.operator-chaining",)),
        ConfigOption("execution.batch-rows", _I, "65536", "Rows a source aims to put in one batch.",
                     minimum=1, maximum=1_048_576),
        ConfigOption("taskmanager.network.memory.max-buffered-bytes", _M, "32 mb",
                     "Bytes that may wait in one channel between two tasks.", minimum=65536),
        ConfigOption("taskmanager.network.memory.buffer-debloat.enabled", _B, "false",
                     "Let no more wait between two tasks than the reader takes in buffer-debloat.target, by how fast it has read:"
                     " checkpoints of a job that is held back pass sooner."),
        ConfigOption("taskmanager.network.memory.buffer-debloat.target", _D, "1 s",
                     "How long a task takes at most to read what waits for it; a batch may wait in any case.", minimum=1),
        ConfigOption("taskmanager.network.memory.buffer-debloat.period", _D, "200 ms",
                     "How often the bound is made anew.", minimum=1),
        ConfigOption("taskmanager.network.memory.buffer-debloat.samples", _I, "20",
                     "Over about how many periods a task's speed is averaged.", minimum=1, maximum=10_000),
        ConfigOption("taskmanager.network.memory.buffer-debloat.threshold-percentages", _I, "25",
                     "By how many percent the bound must change to be told to the senders.", minimum=0, maximum=100),
        ConfigOption("taskmanager.memory.network.max", _M, "256 mb",
                     "Bytes of one TaskManager for its exchange with others: half for channels whose senders are ahead, half "
                     "shared with processes of the same machine.", minimum=0,
                     scope=Scope.CLUSTER),
        ConfigOption("table.exec.state.ttl", _D, "0 ms", "Forget keyed state this long after its last update; 0 keeps it.",
                     minimum=0, deprecated=("execution.min-idle-state-retention", "execution.max-idle-state-retention")),
        ConfigOption("table.exec.source.idle-timeout", _D, "0 ms",
                     "Turn a source idle after this long without rows; 0 never.", minimum=0, scope=Scope.SESSION),
        ConfigOption("table.exec.emit.early-fire.enabled", _B, "false",
                     "Emit results of windows before they close; they are updated until then.", scope=Scope.SESSION),
        ConfigOption("table.exec.emit.early-fire.delay", _D, "0 ms",
                     "With early firing, how long a change may wait before it is emitted; 0 until the end of its batch.",
                     minimum=0, scope=Scope.SESSION),
        ConfigOption("table.exec.emit.late-fire.enabled", _B, "false",
                     "Gather changes by late rows for late-fire.delay; without, each batch of them is emitted.",
                     scope=Scope.SESSION),
        ConfigOption("table.exec.emit.late-fire.delay", _D, "0 ms",
                     "With late firing, how long a change by a late row may wait before it is emitted; 0 until the end of its"
                     " batch.", minimum=0, scope=Scope.SESSION),
        ConfigOption("table.exec.emit.allow-lateness", _D, "0 ms",
                     "Keep windows this long after the watermark has passed their ends, and update results by rows that are late"
                     " by no more. With late firing, 0 takes table.exec.state.ttl.", minimum=0, scope=Scope.SESSION),
        ConfigOption("table.optimizer.agg-phase-strategy", _E, "AUTO", "One or two phases for aggregations.",
                     choices=("AUTO", "ONE_PHASE", "TWO_PHASE"), scope=Scope.SESSION),
        ConfigOption("table.optimizer.reuse-sub-plan-enabled", _B, "true", "Run equal parts of a plan once.",
                     scope=Scope.SESSION),
        ConfigOption("sqlstream.statement.max-expressions", _I, "100000",
                     "The most columns, operators and calls that are planned for one statement, with those of its views.",
                     minimum=1, maximum=200_000, scope=Scope.SESSION),
        ConfigOption("sqlstream.recursion.max-rounds", _I, "1000",
                     "The most rounds of a WITH RECURSIVE: with more, as for rows that go in a circle, the job fails.",
                     minimum=1, maximum=1_000_000),
        ConfigOption("sqlstream.recursion.max-pending-bytes", _M, "1 gb",
                     "Memory for rows of a WITH RECURSIVE that wait for their round, and for those of one group in all rounds: "
                     "with more, as of a step that doubles its rows in every round, the job fails.", minimum=2**20),
        ConfigOption("table.exec.arithmetic-overflow", _E, "WRAP",
                     "What becomes of whole numbers beyond their type, in sums, +, -, * and casts: they keep their low bits, as "
                     "in Flink, and are counted, or fail the job.", choices=("WRAP", "FAIL")),
        ConfigOption("table.exec.sink.not-null-enforcer", _E, "ERROR", "What to do with a NULL for a NOT NULL column of a sink.",
                     choices=("ERROR", "DROP")),
        ConfigOption("table.exec.sink.nested-constraint-enforcer", _E, "IGNORE",
                     "What table.exec.sink.not-null-enforcer and table.exec.sink.type-length-enforcer look into: columns alone, "
                     "fields of rows, or elements of arrays and maps too.",
                     choices=("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS")),
        ConfigOption("table.exec.sink.type-length-enforcer", _E, "IGNORE",
                     "What to do with a value that is longer, or for CHAR and BINARY shorter, than its column of a sink:"
                     " write it as it is, cut and pad it, or fail.", choices=("IGNORE", "TRIM_PAD", "ERROR")),
        ConfigOption("table.exec.sort.default-limit", _I, "-1",
                     "In batch mode, how many rows ORDER BY without LIMIT keeps; -1 for all.", minimum=-1, scope=Scope.SESSION),
        ConfigOption("table.exec.sink.require-on-conflict", _B, "true",
                     "Refuse an upsert whose key is not the sink's primary key.", scope=Scope.SESSION),
        ConfigOption("table.dynamic-table-options.enabled", _B, "true",
                     "Whether OPTIONS hints may change the options of a table.", scope=Scope.SESSION),
        ConfigOption("table.exec.sink.upsert-materialize", _E, "AUTO",
                     "Whether all rows of an updating query are kept by the primary key of its sink, so that the one that was "
                     "added last stays: where the query's key is another one, never, or always.",
                     choices=("AUTO", "NONE", "FORCE"), scope=Scope.SESSION),
        ConfigOption("table.optimizer.non-deterministic-update.strategy", _E, "TRY_RESOLVE",
                     "Where rows are retracted, whether values that differ each time they are computed (RAND, UUID, clocks) are "
                     "kept by row, so that a retraction has those of its row, or computed anew.",
                     choices=("TRY_RESOLVE", "IGNORE"), scope=Scope.SESSION),
        ConfigOption("table.exec.source.cdc-events-duplicate", _B, "false",
                     "Whether tables of change events may have an event twice, as after a failure of what wrote them: the last "
                     "row of each primary key is kept then, and an event that changes nothing is passed over.",
                     scope=Scope.SESSION),
        ConfigOption("table.dml-sync", _B, "false",
                     "Answer an INSERT when its job has ended, not when it has started; `sqlstream run` always waits.",
                     scope=Scope.SESSION),
        ConfigOption("table.plan.force-recompile", _B, "false",
                     "Replace the file that COMPILE PLAN finds at its path.", scope=Scope.SESSION),
        ConfigOption("table.local-time-zone", _Z, "UTC", "Time zone of TIMESTAMP_LTZ values in text and in windows."),
        ConfigOption("table.display.max-column-width", _I, "30",
                     "Widest column of texts in a printed table, in force when it is set; by default the terminal decides.",
                     minimum=1, scope=Scope.CLIENT),
        ConfigOption("sql-client.execution.result-mode", _E, "TABLE",
                     "How the shell shows a query: as a table that is kept up to date, or each change as it comes.",
                     choices=("TABLE", "CHANGELOG", "TABLEAU"), scope=Scope.CLIENT, deprecated=("execution.result-mode",)),
        ConfigOption("sql-client.execution.max-table-result.rows", _I, "1000000",
                     "Rows that the shell's live table holds; beyond that it forgets the oldest.", minimum=1, scope=Scope.CLIENT,
                     deprecated=("execution.max-table-result-rows",)),
        ConfigOption("heartbeat.interval", _D, "10 s", "Interval between heartbeat requests to each TaskManager.", minimum=10,
                     scope=Scope.CLUSTER),
        ConfigOption("heartbeat.timeout", _D, "50 s", "A TaskManager silent for this long is lost.", minimum=20,
                     scope=Scope.CLUSTER),
        ConfigOption("task.cancellation.timeout", _D, "3 min",
                     "A TaskManager whose task does not end this long after its cancellation ends itself.", minimum=1,
                     scope=Scope.CLUSTER),
        ConfigOption("slot.request.timeout", _D, "5 min", "How long a job waits for slots before it fails.", minimum=1),
        ConfigOption("sqlstream.in-process.max-input-size", _M, "4 mb",
                     "A job over bounded tables of at most this many bytes (compressed files and Parquet count tenfold) and at "
                     "most four subtasks per vertex runs in the process of the command, which is done before child processes "
                     "are up; 0 starts them for every job that reads a table. `--task-managers` starts them too.", minimum=0),
        ConfigOption("taskmanager.numberOfTaskSlots", _I, "1", "Slots of each TaskManager.", minimum=1, maximum=1024,
                     scope=Scope.CLUSTER),
        ConfigOption("process.working-dir", _S, "",
                     "The directory for files that a process leaves to the one that takes its place; empty takes "
                     "io.tmp.dirs.", scope=Scope.CLUSTER),
        ConfigOption("process.taskmanager.working-dir", _S, "",
                     "That of TaskManagers; empty takes process.working-dir.", scope=Scope.CLUSTER),
        ConfigOption("jobstore.max-capacity", _I, "200",
                     "How many ended jobs are remembered, at most half of them queries.", minimum=1, maximum=100_000,
                     scope=Scope.CLUSTER),
        ConfigOption("jobstore.expiration-time", _I, "3600",
                     "After how many seconds an ended job is forgotten, with its exceptions, figures and plan.", minimum=1,
                     scope=Scope.CLUSTER),
        ConfigOption("jobstore.type", _E, "File",
                     "Whether ended jobs are known to the next server too (File), or to this one alone (Memory).",
                     choices=("File", "Memory"), scope=Scope.CLUSTER),
        ConfigOption("slotmanager.number-of-slots.max", _I, "64",
                     "The most slots of all TaskManagers together; a job that needs more is refused.", minimum=1, maximum=4096,
                     scope=Scope.CLUSTER),
        ConfigOption("slotmanager.number-of-slots.max-per-user", _I, "0",
                     "The most slots that jobs of one user of a server have at once, or of one session where users have no "
                     "tokens; a single job may have more, and others wait. 0 leaves an eighth of all slots to others, -1 none.",
                     minimum=-1, scope=Scope.CLUSTER),
        ConfigOption("slotmanager.number-of-slots.min", _I, "0",
                     "TaskManagers with this many slots start before a job needs them, and stay.", minimum=0, maximum=4096,
                     scope=Scope.CLUSTER),
        ConfigOption("resourcemanager.taskmanager-timeout", _D, "30 s",
                     "A TaskManager that no job uses is ended after this long; the first ones stay.", minimum=1,
                     scope=Scope.CLUSTER),
        ConfigOption("taskmanager.registration.timeout", _D, "5 min",
                     "A TaskManager that for this long finds no JobManager, at its start or after it has heard nothing for "
                     "heartbeat.timeout, ends itself.", minimum=1, scope=Scope.CLUSTER),
        ConfigOption("resourcemanager.taskmanager-registration.timeout", _D, "5 min",
                     "A TaskManager that has not registered this long after its start is ended and replaced.", minimum=1,
                     scope=Scope.CLUSTER),
        *CHECKPOINTING_OPTIONS,
        *NETWORK_OPTIONS,
        *REPORTER_OPTIONS,
        *SCHEDULING_OPTIONS,
        *SERVER_OPTIONS,
        *STATE_OPTIONS,
        *STORE_OPTIONS,
    )
}  # fmt: skip


RENAMED: dict[str, str] = {old: o.key for o in OPTIONS.values() for old in o.deprecated} | {
    "execution.buffer-timeout": "execution.buffer-timeout.interval"
}
"""Settings by their other keys."""


class Settled(NamedTuple):
    """What a setting comes to: its key, the value if it is taken, and a note if it is not what was written."""

    key: str
    value: str | None
    note: str


def current_key(key: str) -> str:
    """The key of the setting, which may be given by another one."""
    return RENAMED.get(key, key)


def option(key: str, span: Span | None = None) -> ConfigOption:
    """The option of that key. UserError SS4001 with a suggestion when there is none."""
    key = current_key(key)
    found = OPTIONS.get(key) or _kept_option(key) or reporter_option(key) or foreign_option(key)
    if found is None:
        hint = did_you_mean(key, [*OPTIONS, *flink_keys().tuning]) or "sqlstream config lists the options"
        raise UserError("SS4001", f'unknown option "{key}"', span=span, hint=hint)
    return found


def note_of(key: str, value: str) -> str:
    """The note for a user who gives this setting: that it has no effect, or what it is called here; empty for most."""
    found = option(key)
    if key in OPTIONS:
        meant = found.choice_meant(value)
        return f"note: '{key}' = '{value.strip()}' is taken as '{meant}'" if meant else ""
    current = current_key(key)
    if current != key:
        return f"note: '{key}' is called '{current}' here"
    if foreign_option(key) is None or reporter_option(key) is not None:
        return ""
    # A key of Flink's that begins so is more likely than a misspelled one of ours.
    guess = did_you_mean(key, list(OPTIONS), 0.9) if key not in flink_keys().whole else ""
    return f"note: '{key}' has no effect here: {found.description}{f' ({guess})' if guess else ''}"


def settle(
    key: str,
    value: str,
    key_span: Span | None = None,
    value_span: Span | None = None,
    *,
    at_start: bool = False,
) -> Settled:
    """A setting that was written, by its own key.

    UserError SS4001 for an unknown option, SS4002 for a wrong value. `at_start`: where a cluster or server starts; elsewhere
    their options are not taken: Flink's with a note, since its scripts have them, and ours with UserError SS4007."""
    found = option(key, key_span)
    if found.scope.is_settable or at_start:
        found.parse(value, value_span)
        return Settled(current_key(key), value, note_of(key, value))
    what = "cluster" if found.scope is Scope.CLUSTER else "server"
    problem = f"belongs to the {what}, and is in force from its start"
    hint = f"put it into sqlstream.yaml, or start the {what} with -D {found.key}=VALUE"
    if found.key.startswith("sqlstream."):
        raise UserError("SS4007", f'option "{found.key}" {problem}', span=key_span, hint=hint)
    return Settled(found.key, None, f"note: '{key}' has no effect here: it {problem}; {hint}")


def _kept_option(key: str) -> ConfigOption | None:
    """A setting of Spark, which checks it, or one of Flink's SQL Client, which stores it in its session."""
    if is_spark_key(key):
        return ConfigOption(key, ConfigType.STRING, "", "A setting of Spark.")
    if not key.startswith("sql-client."):
        return None
    return ConfigOption(
        key, ConfigType.STRING, "", "A setting of Flink's SQL Client, kept for it.", scope=Scope.CLIENT
    )


def get(config: Mapping[str, str], key: str) -> Any:
    """The parsed value in force: the value that was SET, else the default. A job that was kept by an earlier release has names
    that are deprecated by now."""
    found = option(key)
    for name in (key, *found.deprecated):
        if name in config:
            return found.parse(config[name])
    return found.parse(found.default)
