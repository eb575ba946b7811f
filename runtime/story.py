"""The recent events of a state machine, for the text of an error that should never have happened."""

from __future__ import annotations

from collections import deque


class Story:
    """The last `limit` things that happened, oldest first; what is older is forgotten."""

    def __init__(self, limit: int = 200) -> None:
        self._lines: deque[str] = deque(maxlen=limit)

    def add(self, now_ms: int, text: str) -> None:
        self._lines.append(f"{now_ms} {text}")

    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)
