"""The figures of tasks as text, in a column of their own beside the rows."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sqlstream.runtime.batch.spark.tasks import Figures

FIGURES = "__sqlstream_figures"
FIGURES_DDL = f"{FIGURES} STRING"


def encode_figures(figures: Figures) -> str:
    """One text for the figures of one task.

    >>> encode_figures({("t0", 1): {"numRecordsOut": 2}})
    '[["t0",1,{"numRecordsOut":2}]]'
    """
    return msgspec.json.encode([(name, subtask, data) for (name, subtask), data in figures.items()]).decode()


def decode_figures(texts: Iterable[str]) -> Figures:
    """Those of several tasks. Figures of a subtask that has run twice count once.

    >>> text = encode_figures({("t0", 1): {"numRecordsOut": 2}})
    >>> decode_figures([text, text])
    {('t0', 1): {'numRecordsOut': 2}}
    """
    found: Figures = {}
    for text in texts:
        for name, subtask, data in msgspec.json.decode(text):
            found[name, subtask] = data
    return found
