"""The settings of scheduling: where slots are leased, which hosts get none, and which parallelism a job has."""

from __future__ import annotations

from sqlstream.config_option import ConfigOption, ConfigType, Scope

_B, _I, _F, _D, _E = (
    ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DOUBLE, ConfigType.DURATION, ConfigType.ENUM,
)  # fmt: skip
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

_ADAPTIVE = (
    ConfigOption("jobmanager.scheduler", _E, "Default",
                 "Whether a job waits for all its slots (Default), or starts with fewer, at a lower parallelism, and follows the "
                 "slots that there are (Adaptive); jobs of INSERT in streaming mode alone.",
                 choices=("Default", "Adaptive"), refused=("AdaptiveBatch",)),
    ConfigOption("scheduler-mode", _E, "NONE",
                 "REACTIVE: an adaptive job takes all slots that there are, up to its number of key groups. For clusters whose "
                 "TaskManagers come by themselves.", choices=("NONE", "REACTIVE")),
    ConfigOption("jobmanager.adaptive-scheduler.submission.resource-wait-timeout", _D, "5 min",
                 "How long an adaptive job waits for enough slots for the parallelism 1 before its restart strategy decides; in "
                 "reactive mode a year, unless it is given.", minimum=0,
                 deprecated=("jobmanager.adaptive-scheduler.resource-wait-timeout",)),
    ConfigOption("jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout", _D, "10 s",
                 "How long an adaptive job that could start waits for further slots; in reactive mode 0, unless it is given.",
                 minimum=0, deprecated=("jobmanager.adaptive-scheduler.resource-stabilization-timeout",)),
    ConfigOption("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", _D, "1 min",
                 "How long no slots have come before an adaptive job that runs takes those that have, when it wants more.",
                 minimum=0, deprecated=("jobmanager.adaptive-scheduler.scaling-interval.max",)),
    ConfigOption("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling", _D, "30 s",
                 "How long an adaptive job runs before its parallelism is raised.", minimum=0,
                 deprecated=("jobmanager.adaptive-scheduler.scaling-interval.min",)),
    ConfigOption("jobmanager.adaptive-scheduler.min-parallelism-increase", _I, "1",
                 "By how much the parallelism of an adaptive job that runs is raised at the least, but to all that it wants.",
                 minimum=1),
    ConfigOption("jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers", _B, "true",
                 "Whether an adaptive job that has more slots than it needs takes those of few TaskManagers."),
    ConfigOption("jobmanager.adaptive-scheduler.rescale-trigger.active-checkpoint.enabled", _E, "true",
                 "A checkpoint is taken when the parallelism of an adaptive job is to be raised.",
                 choices=("true",), refused=("false",)),
    ConfigOption("jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures", _I, "2",
                 "After so many checkpoints for it that failed, an adaptive job is raised from the last one that is complete.",
                 minimum=1),
)  # fmt: skip

_AUTOSCALER = (
    ConfigOption("job.autoscaler.enabled", _B, "false",
                 "Whether the parallelism of a job of INSERT follows how busy its tasks are."),
    ConfigOption("job.autoscaler.scaling.enabled", _B, "true",
                 "Whether what the autoscaler decides is done, or only told in the log and by REST."),
    ConfigOption("job.autoscaler.utilization.target", _F, "0.7",
                 "Which part of the time the tasks of the busiest vertex are to work.", minimum=0.01, maximum=1,
                 deprecated=("job.autoscaler.target.utilization",)),
    ConfigOption("job.autoscaler.target.utilization.boundary", _F, "0.3",
                 "By how much they may be more or less busy before the parallelism changes.", minimum=0, maximum=1),
    ConfigOption("job.autoscaler.metrics.window", _D, "15 min", "Over which time figures are averaged.", minimum=1),
    ConfigOption("job.autoscaler.stabilization.interval", _D, "5 min",
                 "How long a job runs, from its start, restart or rescale on, before its figures count.", minimum=0),
    ConfigOption("job.autoscaler.scale-down.interval", _D, "1 h",
                 "How long a lower parallelism has to be right before the job gets it.", minimum=0),
    ConfigOption("job.autoscaler.scale-up.max-factor", _F, "100000.0",
                 "By which part of its parallelism a job grows at once, at the most: 1.0 doubles it.", minimum=0),
    ConfigOption("job.autoscaler.scale-down.max-factor", _F, "0.6",
                 "By which part of its parallelism a job shrinks at once, at the most.", minimum=0, maximum=1),
    ConfigOption("job.autoscaler.vertex.min-parallelism", _I, "1", "The lowest parallelism that a job gets.",
                 minimum=1, maximum=32768),
    ConfigOption("job.autoscaler.vertex.max-parallelism", _I, "200", "The highest parallelism that a job gets.",
                 minimum=1, maximum=32768),
    ConfigOption("job.autoscaler.backlog-processing.lag-threshold", _D, "5 min",
                 "A job that would read for longer to be through with what is left does not shrink.", minimum=0),
    ConfigOption("job.autoscaler.catch-up.duration", _D, "30 min",
                 "In which time a job is to be through with what is left to read, beside what comes; 0 does not count that.",
                 minimum=0),
    ConfigOption("job.autoscaler.restart.time", _D, "5 min",
                 "How long a job that falls behind is taken to stand still while it gets another parallelism.", minimum=0),
)  # fmt: skip

SCHEDULING_OPTIONS = (*_SLOTS, *_ADAPTIVE, *_AUTOSCALER)
