"""Why a table is read through our reader."""

from __future__ import annotations


class NotNative(Exception):
    """An engine could read other rows than our reader, or none where ours fails. `reason` is for EXPLAIN."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
