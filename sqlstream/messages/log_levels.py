"""The levels of loggers of a TaskManager: a call of the JobManager that sets some, and is answered with all that are set."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sqlstream.messages.rpc import RpcMessage
from sqlstream.messages.stacks import RequestStacks

LOGGERS_MAX = 100
"""How many loggers may have a level of their own."""

LoggerName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.\-]{1,200}\Z")]


class SetLogLevels(RpcMessage, frozen=True):
    """The level of each logger by its name, `root` for those without one of their own; empty takes what is set away again.
    Without `levels` nothing changes."""

    levels: Annotated[dict[LoggerName, str], msgspec.Meta(max_length=LOGGERS_MAX)] = {}


class LogLevels(RpcMessage, frozen=True):
    levels: dict[str, str]


_inquiry_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(RequestStacks | SetLogLevels)
_reply_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(LogLevels)


def decode_inquiry(data: bytes) -> RequestStacks | SetLogLevels:
    """What the JobManager asks of a TaskManager."""
    inquiry: RequestStacks | SetLogLevels = _inquiry_decoder.decode(data)
    return inquiry


def decode_log_levels(data: bytes) -> LogLevels:
    reply: LogLevels = _reply_decoder.decode(data)
    return reply
