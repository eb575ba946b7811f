"""The ids of writers, which the directories bear that they stage rows in."""

from __future__ import annotations

import hashlib
import uuid

from sqlstream.spi.connector import ConnectorContext


def new_writer_id(context: ConnectorContext) -> str:
    """32 hexadecimal digits; those of its name, where it has one."""
    return digits_of(context.writer_name) if context.writer_name else uuid.uuid4().hex


def digits_of(writer_name: str) -> str:
    """
    >>> digits_of("a1/job-0-0-0/2")
    '238adb1118b9cd18f14a749f36210bf6'
    """
    return hashlib.sha256(writer_name.encode()).hexdigest()[:32]
