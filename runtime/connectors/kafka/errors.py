"""What errors of librdkafka and of brokers mean for a job."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError
from sqlstream.runtime.connectors.kafka.library import INVALID_ARGUMENT, error_name

_UNKNOWN_TOPIC = (3, -188, -190)
"""UNKNOWN_TOPIC_OR_PART, _UNKNOWN_TOPIC, _UNKNOWN_PARTITION."""

NOT_YET_THERE = (3, 5)
"""UNKNOWN_TOPIC_OR_PART and LEADER_NOT_AVAILABLE, as of a topic that a broker makes because it was asked for."""

UNREACHABLE = (-195, -187, -185, -193)
"""_TRANSPORT, _ALL_BROKERS_DOWN, _TIMED_OUT, _RESOLVE."""

_REFUSED = (29, 30, 31, 53, 58, -169)
"""TOPIC, GROUP, CLUSTER and TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SASL_AUTHENTICATION_FAILED, _AUTHENTICATION."""

_FENCED = (47, 90, -144)
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, _FENCED."""

_FORGOTTEN = (45, 59)
"""OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID."""

OUT_OF_RANGE = (1, -140)
"""OFFSET_OUT_OF_RANGE, _AUTO_OFFSET_RESET."""

_TOO_LARGE = (10, 18)
"""MSG_SIZE_TOO_LARGE, RECORD_LIST_TOO_LARGE."""


def error_of(code: int, text: str, topic: str, partition: int = -1) -> SqlStreamError:
    """The error for a topic, or for one of its partitions."""
    return error_at(
        code, text, f'topic "{topic}"' if partition < 0 else f'partition {partition} of topic "{topic}"'
    )


def error_at(code: int, text: str, place: str) -> SqlStreamError:
    """The error for what is described so."""
    name = error_name(code)
    if code == INVALID_ARGUMENT:
        hint = "correct the options 'properties.…'"
        return UserError("SS4002", f"{place} cannot be used with these properties: {text}", hint=hint)
    if code in _FENCED:
        return ExternalError("SS5311", f"the commit by {place} was taken over: {name}", detail=text)
    if code in _UNKNOWN_TOPIC:
        return UserError(
            "SS5302", f"{place} does not exist", detail=text, hint="create it, or correct the option 'topic'"
        )
    if code in _REFUSED:
        return ExternalError(
            "SS5303",
            f"Kafka refuses access to {place}: {name}",
            detail=text,
            hint="check 'properties.security.protocol', 'properties.sasl.…' and what the user may do",
        )
    if code in OUT_OF_RANGE:
        return UserError(
            "SS5304",
            f"{place} does not have the offset that the job goes on from any more",
            detail=text,
            hint="the topic keeps its messages for too short a time; set 'properties.auto.offset.reset' to 'earliest' or"
            " 'latest' to go on without what is gone",
        )
    if code in _TOO_LARGE:
        return UserError(
            "SS5306",
            f"a message is too large for {place}",
            detail=text,
            hint="raise max.message.bytes of the topic, and 'properties.max.request.size'",
        )
    if code in _FORGOTTEN:
        return ExternalError(
            "SS5301",
            f"the broker of {place} does not know what this writer has sent before: {name}",
            detail=text,
            hint="it may have lost messages: read its log; a job with checkpoints sends again what was not acknowledged",
        )
    if code > 0:
        return ExternalError(
            "SS5301",
            f"the broker of {place} answers with {name}",
            detail=text,
            hint="look for this error in the log of the broker",
        )
    return ExternalError(
        "SS5301", f"{place} cannot be reached: {name}", detail=text, hint=_HINT_OF_UNREACHABLE
    )


_HINT_OF_UNREACHABLE = "check 'properties.bootstrap.servers', and that the broker runs"


def unreachable(settings: Mapping[str, str], detail: str, retry: Retry | None = None) -> ExternalError:
    """The error for brokers of which none answers."""
    return ExternalError(
        "SS5301",
        f'no broker of "{settings.get("bootstrap.servers", "")}" can be reached',
        retry=retry,
        detail=detail,
        hint=_HINT_OF_UNREACHABLE,
    )
