"""The settings of scheduling: where slots are leased, which hosts get none, and which parallelism a job has."""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType, Scope

_B, _I, _D, _E = ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DURATION, ConfigType.ENUM
_CLUSTER = Scope.CLUSTER

_SLOTS = (
    ConfigOption("taskmanager.load-balance.mode", _E, "NONE",
                 "From which TaskManager a slot is leased: that with the most free slots (NONE), with the smallest part of its "
                 "slots in use (SLOTS), or with the fewest free slots (MIN_RESOURCES).",
                 choices=("NONE", "SLOTS", "MIN_RESOURCES"), refused=("TASKS",), scope=_CLUSTER),
    ConfigOption("cluster.evenly-spread-out-slots", _B, "false",
                 "The same as taskmanager.load-balance.mode = SLOTS, where that is not given.", scope=_CLUSTER),
    ConfigOption("cluster.blocklist.failures", _I, "3",
                 "A host on which so many TaskManagers are lost, or tasks fail for a reason that may be the host's, within "
                 "cluster.blocklist.window gets no tasks for a while unless no other host is free; 0 blocks none.",
                 minimum=0, maximum=1000, scope=_CLUSTER),
    ConfigOption("cluster.blocklist.window", _D, "10 min", "The time within which failures of a host count together.",
                 minimum=1, scope=_CLUSTER),
    ConfigOption("cluster.blocklist.duration", _D, "10 min", "How long a host that fails again and again is blocked.",
                 minimum=1, scope=_CLUSTER),
)  # fmt: skip

SCHEDULING_OPTIONS = (*_SLOTS,)
