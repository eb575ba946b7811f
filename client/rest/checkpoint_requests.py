"""The bodies of requests about checkpoints and savepoints, with Flink's keys."""

from __future__ import annotations

import msgspec

from sqlstream.client.rest.messages import keys


class CheckpointRequest(msgspec.Struct, rename="camel"):
    checkpoint_type: str | None = None
    trigger_id: str | None = None


class SavepointRequest(msgspec.Struct, rename=keys("format_type", "trigger_id")):
    target_directory: str | None = None
    cancel_job: bool | None = None
    format_type: str | None = None
    trigger_id: str | None = None


class StopRequest(msgspec.Struct, rename="camel"):
    target_directory: str | None = None
    drain: bool | None = None
    format_type: str | None = None
    trigger_id: str | None = None


class DisposalRequest(msgspec.Struct, rename="kebab"):
    savepoint_path: str
