"""The settings of checkpoints, of restarts after a failure, and of what a job goes on from; keys and defaults are Flink's."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.config_option import ConfigOption, ConfigType, Scope, parse_duration_ms

_B, _I, _D, _N, _M, _S, _E = (
    ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DURATION, ConfigType.DOUBLE, ConfigType.MEMORY_SIZE, ConfigType.STRING,
    ConfigType.ENUM,
)  # fmt: skip

INTERVAL_MS_MIN = 10
"""The least time between checkpoints (Flink: CheckpointCoordinatorConfiguration.MINIMAL_CHECKPOINT_TIME)."""

ATTEMPTS_UNBOUNDED = 2**31 - 1

_CHECKPOINTS = (
    ConfigOption("execution.checkpointing.interval", _D, "0 ms",
                 "Take a checkpoint of each job this often; 0 takes none but for those that are asked for: a job that fails "
                 "before the first then starts from its beginning, if restart-strategy.type restarts it.", minimum=0),
    ConfigOption("execution.checkpointing.min-pause", _D, "0 ms",
                 "The least time between the end of one checkpoint and the beginning of the next.", minimum=0),
    ConfigOption("execution.checkpointing.timeout", _D, "10 min",
                 "A checkpoint that takes longer is given up, and so is a savepoint that cannot begin for so long.",
                 minimum=INTERVAL_MS_MIN),
    ConfigOption("execution.checkpointing.max-concurrent-checkpoints", _I, "1",
                 "How many checkpoints of a job may be in progress at once; with execution.checkpointing.min-pause, and with "
                 "unaligned ones, it is one. A task that begins one while the state of another is still being read copies all "
                 "that is left of it at once, and processes no rows meanwhile.", minimum=1, maximum=8),
    ConfigOption("execution.checkpointing.tolerable-failed-checkpoints", _I, "0",
                 "How many checkpoints in a row may fail before the job is restarted.", minimum=0),
    ConfigOption("execution.checkpointing.num-retained", _I, "1", "How many completed checkpoints are kept.",
                 minimum=1, maximum=1000, deprecated=("state.checkpoints.num-retained",)),
    ConfigOption("execution.checkpointing.mode", _E, "EXACTLY_ONCE",
                 "How often each row counts in state and in sinks that commit. With AT_LEAST_ONCE no task waits for the barriers "
                 "of checkpoints, but for those of savepoints: after a failure, rows that came behind a barrier count twice.",
                 choices=("EXACTLY_ONCE", "AT_LEAST_ONCE")),
    ConfigOption("execution.checkpointing.unaligned.enabled", _B, "false",
                 "Let the barriers of checkpoints, but not of savepoints, pass the rows that wait between tasks, which become "
                 "part of the checkpoint: it waits for no slow task, is larger, and goes on with the same statement only.",
                 deprecated=("execution.checkpointing.unaligned",)),
    ConfigOption("execution.checkpointing.aligned-checkpoint-timeout", _D, "0 ms",
                 "With execution.checkpointing.unaligned.enabled: how long the barriers of a checkpoint wait behind rows before "
                 "they pass them; 0 does not wait.", minimum=0),
    ConfigOption("execution.checkpointing.checkpoints-after-tasks-finish", _E, "true",
                 "Take checkpoints while some of the tasks have finished.", choices=("true",), refused=("false",),
                 deprecated=("execution.checkpointing.checkpoints-after-tasks-finish.enabled",)),
    ConfigOption("execution.checkpointing.externalized-checkpoint-retention", _E, "NO_EXTERNALIZED_CHECKPOINTS",
                 "Which jobs leave their last checkpoints when they end: none, those that fail "
                 "(DELETE_ON_CANCELLATION), or those that fail or are cancelled.",
                 choices=("NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION")),
    ConfigOption("execution.checkpointing.storage", _E, "filesystem", "Where checkpoints are kept.",
                 choices=("filesystem",), refused=("jobmanager",),
                 deprecated=("state.backend.checkpoint-storage", "state.checkpoint-storage")),
    ConfigOption("execution.checkpointing.snapshot-compression", _B, "false",
                 "Write state in LZ4: less to store, for more work of the processor."),
    ConfigOption("execution.checkpointing.dir", _S, "",
                 "The directory of checkpoints, which every process of the cluster reaches; empty takes one of the cluster's.",
                 deprecated=("state.backend.fs.checkpointdir", "state.checkpoints.dir")),
    ConfigOption("execution.checkpointing.savepoint-dir", _S, "", "The directory of savepoints that are given no other.",
                 deprecated=("state.savepoints.dir",)),
    ConfigOption("execution.checkpointing.file-merging.enabled", _B, "false",
                 "Write the small tables of several subtasks of a TaskManager into one file, a few for each checkpoint: fewer "
                 "requests to an object store."),
    ConfigOption("execution.checkpointing.file-merging.max-file-size", _M, "32 mb",
                 "A merged file takes no further subtask that would make it larger; a table that is larger, or of 4 mb, has a "
                 "file of its own.", minimum=1),
    ConfigOption("execution.checkpointing.file-merging.pool-blocking", _B, "false",
                 "A subtask that finds all open files in use waits for one, and opens no further one, if there are as many as "
                 "execution.checkpointing.file-merging.max-subtasks-per-file says."),
    ConfigOption("execution.checkpointing.file-merging.max-subtasks-per-file", _I, "4",
                 "With execution.checkpointing.file-merging.pool-blocking: one file may be open for each so many subtasks of a "
                 "job in a TaskManager.", minimum=1),
    ConfigOption("execution.checkpointing.file-merging.max-space-amplification", _N, "2.0",
                 "State is written anew that lies in merged files of more than so many times the size of what is needed of them, "
                 "where that sets free at least as much as it writes; below 1 it is not."),
    ConfigOption("execution.checkpointing.file-merging.across-checkpoint-boundary", _E, "false",
                 "Whether a merged file has state of several checkpoints: what an aborted checkpoint has written is found by the "
                 "names of its files.", choices=("false",), refused=("true",)),
    ConfigOption("execution.checkpointing.local-backup.enabled", _B, "false",
                 "Keep a second copy of the state of the newest checkpoint on the local disk of each TaskManager; not set, it is "
                 "as execution.state-recovery.from-local."),
    ConfigOption("execution.checkpointing.local-backup.dirs", _S, "",
                 "Directories for local copies of state, separated by commas; empty takes localState in "
                 "process.taskmanager.working-dir.",
                 scope=Scope.CLUSTER),
)  # fmt: skip

_RESTARTS = (
    ConfigOption("restart-strategy.type", _E, "none",
                 "What to do when a task fails; not set, it is exponential-delay for a job that takes checkpoints.",
                 choices=("none", "disable", "off", "fixed-delay", "fixeddelay", "failure-rate", "failurerate",
                          "exponential-delay", "exponentialdelay"),
                 deprecated=("execution.restart-strategy.type", "restart-strategy")),
    ConfigOption("restart-strategy.fixed-delay.attempts", _I, "1",
                 "How many failures of a job are followed by a restart.", minimum=0),
    ConfigOption("restart-strategy.fixed-delay.delay", _D, "1 s", "The time between a failure and the restart.", minimum=0),
    ConfigOption("restart-strategy.failure-rate.max-failures-per-interval", _I, "1",
                 "How many failures within the interval are followed by a restart.", minimum=1),
    ConfigOption("restart-strategy.failure-rate.failure-rate-interval", _D, "1 min",
                 "The interval in which failures are counted.", minimum=1),
    ConfigOption("restart-strategy.failure-rate.delay", _D, "1 s", "The time between a failure and the restart.", minimum=0),
    ConfigOption("restart-strategy.exponential-delay.initial-backoff", _D, "1 s",
                 "The time between the first failure and the restart.", minimum=1),
    ConfigOption("restart-strategy.exponential-delay.max-backoff", _D, "1 min",
                 "The longest time between a failure and the restart.", minimum=1),
    ConfigOption("restart-strategy.exponential-delay.backoff-multiplier", _N, "1.5",
                 "Each further failure multiplies the time before the restart by this.", minimum=1),
    ConfigOption("restart-strategy.exponential-delay.reset-backoff-threshold", _D, "1 h",
                 "After this long without a failure, the next one counts as the first.", minimum=1),
    ConfigOption("restart-strategy.exponential-delay.jitter-factor", _N, "0.1",
                 "The part of the time before a restart by which it varies at random.", minimum=0, maximum=1),
    ConfigOption("restart-strategy.exponential-delay.attempts-before-reset-backoff", _I, str(ATTEMPTS_UNBOUNDED),
                 "How many failures in a row are followed by a restart; 2147483647 for any number.", minimum=0),
)  # fmt: skip

_RECOVERY = (
    ConfigOption("execution.state-recovery.path", _S, "",
                 "The savepoint or retained checkpoint that the next jobs go on from: its directory, or the _metadata in it.",
                 deprecated=("execution.savepoint.path",)),
    ConfigOption("execution.state-recovery.from-local", _B, "false",
                 "Go on from the copies of state on the local disk, where there are any, after a failure.",
                 deprecated=("state.backend.local-recovery",)),
    ConfigOption("execution.state-recovery.ignore-unclaimed-state", _B, "false",
                 "Leave out state of the savepoint that no operator of the job has a use for.",
                 deprecated=("execution.savepoint.ignore-unclaimed-state",)),
    ConfigOption("execution.state-recovery.claim-mode", _E, "NO_CLAIM",
                 "Who owns what execution.state-recovery.path names: with CLAIM the job, which removes it after its next "
                 "checkpoints; with NO_CLAIM whoever made it.", choices=("NO_CLAIM", "CLAIM"), refused=("LEGACY",),
                 deprecated=("execution.savepoint-restore-mode",)),
)  # fmt: skip

STORE_OPTIONS: tuple[ConfigOption, ...] = (
    ConfigOption("s3.endpoint", _S, "",
                 "The store of checkpoints and savepoints at s3://…, as http://host:port or https://host; empty is Amazon's."),
    ConfigOption("s3.endpoint.region", _S, "us-east-1", "The region of that store."),
    ConfigOption("s3.access-key", _S, "", "The access key of the user of that store. Without keys it is asked anonymously."),
    ConfigOption("s3.secret-key", _S, "", "The secret key that belongs to s3.access-key."),
    ConfigOption("gs.endpoint", _S, "",
                 "The store of checkpoints and savepoints at gs://…, as http://host:port or https://host; empty is Google's."),
    ConfigOption("gs.access-token", _S, "", "An OAuth token for that store, valid for an hour; empty asks it anonymously."),
    ConfigOption("fs.azure.account.key", _S, "",
                 "The key of the storage account of checkpoints and savepoints at abfs[s]://…; empty asks anonymously."),
    ConfigOption("fs.azure.endpoint", _S, "", "The store at abfs[s]://…, as http://host:port; empty is Azure's."),
    ConfigOption("fs.user", _S, "", "The user of checkpoints and savepoints at hdfs, webhdfs, swebhdfs, sftp and ftp."),
    ConfigOption("fs.password", _S, "", "That user's password, for sftp, ftp and swebhdfs."),
    ConfigOption("fs.private-key", _S, "",
                 "That user's private key for sftp, as text in OpenSSH's or PEM form, in place of a password."),
    ConfigOption("fs.host-key", _S, "",
                 "The fingerprint SHA256:… of the key of a server of sftp; several are separated by commas."),
    ConfigOption("fs.token", _S, "", "A delegation token for webhdfs and swebhdfs, in place of a user."),
)  # fmt: skip
"""How checkpoints and savepoints in other file systems are reached; tables have options of the same names."""

CHECKPOINTING_MODE = "execution.checkpointing.mode"


def is_at_least_once(config: Mapping[str, str]) -> bool:
    """Whether checkpoints may count rows twice that came behind a barrier."""
    return config.get(CHECKPOINTING_MODE, "").upper() == "AT_LEAST_ONCE"


CHECKPOINTING_OPTIONS: tuple[ConfigOption, ...] = (*_CHECKPOINTS, *_RESTARTS, *_RECOVERY)


def takes_checkpoints(config: Mapping[str, str]) -> bool:
    """Whether a job with these settings takes checkpoints by itself. ValueError when the interval is no duration."""
    return parse_duration_ms(config.get("execution.checkpointing.interval", "0")) > 0
