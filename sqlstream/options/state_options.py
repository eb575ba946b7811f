"""The settings of state: where it is kept, and how much memory it may take; keys are Flink's."""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType, Scope

_E, _M, _S = ConfigType.ENUM, ConfigType.MEMORY_SIZE, ConfigType.STRING
_D, _I = ConfigType.DURATION, ConfigType.INTEGER

_FACTORIES = "org.apache.flink."
BACKENDS: tuple[tuple[str, str], ...] = (
    ("rocksdb", "mapped"),
    ("forst", "mapped"),
    (f"{_FACTORIES}state.rocksdb.EmbeddedRocksDBStateBackendFactory", "mapped"),
    (f"{_FACTORIES}contrib.streaming.state.EmbeddedRocksDBStateBackendFactory", "mapped"),
    (f"{_FACTORIES}contrib.streaming.state.RocksDBStateBackendFactory", "mapped"),
    (f"{_FACTORIES}state.forst.ForStStateBackendFactory", "mapped"),
    (f"{_FACTORIES}runtime.state.hashmap.HashMapStateBackendFactory", "hashmap"),
    ("filesystem", "hashmap"),
    ("jobmanager", "hashmap"),
)
"""Flink's names, those of Flink 1 too: state beyond memory lies in files."""

STATE_OPTIONS: tuple[ConfigOption, ...] = (
    ConfigOption("state.backend.type", _E, "hashmap",
                 "Where state is kept: hashmap in memory, mapped in files of the local disk that are mapped into memory.",
                 choices=("hashmap", "mapped"), synonyms=BACKENDS, deprecated=("state.backend",)),
    ConfigOption("taskmanager.memory.managed.size", _M, "0",
                 "Memory of one TaskManager for state, an equal part for each slot: a job with more state fails, or with "
                 "mapped state reads it from files; 0 sets no limit but the machine's memory.", minimum=0,
                 scope=Scope.CLUSTER),
    ConfigOption("sqlstream.state.budget", _M, "0",
                 "The state of all of a job up to which EXPLAIN STATE FOR JOB counts the days; 0 takes the managed memory of its "
                 "fullest slot.", minimum=0, scope=Scope.SESSION),
    ConfigOption("sqlstream.state.expired-rows.retention", _D, "0 ms",
                 "How long jobs that are started keep the rows that table.exec.state.ttl or a STATE_TTL hint drops from their "
                 "state, for t$expired; 0 keeps none.", minimum=0),
    ConfigOption("sqlstream.state.expired-rows.max-rows", _I, "100000",
                 "How many expired rows a subtask keeps of each side or table of its state; the oldest go first, an eighth at a "
                 "time.",
                 minimum=8, maximum=10_000_000),
    ConfigOption("sqlstream.state.expired-rows.max-bytes", _M, "16 mb",
                 "Memory for expired rows, in about, of each side or table of a subtask's state.", minimum=1 << 10),
    ConfigOption("io.tmp.dirs", _S, "",
                 "Directories of the local disk for mapped state, separated by commas; empty takes the system's.",
                 scope=Scope.CLUSTER, deprecated=("taskmanager.tmp.dirs",)),
)  # fmt: skip


def directories_of(text: str) -> tuple[str, ...]:
    """The directories that `io.tmp.dirs` names.

    >>> directories_of("/disk1/tmp, /disk2/tmp"), directories_of("")
    (('/disk1/tmp', '/disk2/tmp'), ())
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())
