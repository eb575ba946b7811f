"""The candidates that a gateway names, with the place in the text that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream.client.completion import Candidate, CandidateKind
from sqlstream.client.completion.cursor import read_cursor


def candidates_of(answer: Mapping[str, Any], text: str, position: int) -> tuple[Candidate, ...]:
    """Flink's protocol names texts alone: their kind is that of words, and they replace the name at the cursor."""
    cursor = read_cursor(text, position)
    start = position if cursor is None else cursor.start
    return tuple(Candidate(str(word), CandidateKind.KEYWORD, "", start) for word in answer["candidates"])
