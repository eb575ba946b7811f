"""ON CONFLICT of INSERT INTO."""

from __future__ import annotations

import enum


class OnConflict(enum.Enum):
    """Which of several rows with one primary key stays: the one that was added last, or the one that was there before; ERROR:
    there must not be several."""

    DEDUPLICATE = "DEDUPLICATE"
    NOTHING = "NOTHING"
    ERROR = "ERROR"
