"""Stacks of a TaskManager's threads: a call of the JobManager, which changes nothing and is answered at once or when the samples
are taken."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sqlstream.messages.rpc import RpcMessage

SAMPLES_MAX = 1000
INTERVAL_MS_MAX = 1000


class RequestStacks(RpcMessage, frozen=True):
    """Without `execution_ids`: the present stacks of all threads. With them: `samples` of the stacks of these tasks, one each
    `interval_ms`, of the `depth` innermost frames."""

    execution_ids: tuple[str, ...] = ()
    samples: Annotated[int, msgspec.Meta(ge=1, le=SAMPLES_MAX)] = 1
    interval_ms: Annotated[int, msgspec.Meta(ge=1, le=INTERVAL_MS_MAX)] = 1
    depth: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class ThreadStack(msgspec.Struct, frozen=True):
    """`stack` as Python's tracebacks show it, the innermost call last."""

    name: str
    stack: str


class SampledStack(msgspec.Struct, frozen=True):
    """How often a task was seen with these calls, the innermost last: while its thread had the processor, and while it waited."""

    frames: tuple[str, ...]
    on_cpu: int
    off_cpu: int


class TaskStacks(msgspec.Struct, frozen=True):
    execution_id: str
    stacks: tuple[SampledStack, ...]


class StacksReply(RpcMessage, frozen=True):
    """`tasks` are those that ran here while samples were taken."""

    threads: tuple[ThreadStack, ...] = ()
    tasks: tuple[TaskStacks, ...] = ()


_reply_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(StacksReply)


def decode_stacks_reply(data: bytes) -> StacksReply:
    reply: StacksReply = _reply_decoder.decode(data)
    return reply
