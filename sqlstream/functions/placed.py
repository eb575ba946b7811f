"""Functions that stand in one clause alone: ranks with OVER, windows of time, GROUPING, parts of MATCH_RECOGNIZE.

The clause gives them their arguments and types, so there is no signature: they are here to be described, listed and completed.
"""

from __future__ import annotations

import dataclasses

from sqlstream.functions.signature import DescribedFunction


@dataclasses.dataclass(frozen=True)
class PlacedFunction(DescribedFunction):
    """`place` is the clause, where {} stands for the call; `page` is the page of docs/ that says more."""

    place: str
    page: str

    @property
    def form(self) -> str:
        return self.place.format(self.usage)


def _family(place: str, page: str, **described: tuple[str, str]) -> dict[str, PlacedFunction]:
    return {
        name: PlacedFunction(name, f"{name}{arguments}", description=description, place=place, page=page)
        for name, (arguments, description) in described.items()
    }


OVER_FUNCTIONS = _family(
    "{} OVER (PARTITION BY key ORDER BY column)",
    "docs/sql/over.md",
    ROW_NUMBER=("()", "The place of a row in its partition, from 1; each row has its own."),
    RANK=("()", "The place of a row in its partition, from 1; equal rows share one, and the next is left out."),
    DENSE_RANK=("()", "The place of a row in its partition, from 1; equal rows share one, and none is left out."),
    NTILE=("(buckets)", "The number, from 1, of the bucket of a row: a partition is cut into buckets of equal size."),
    CUME_DIST=("()", "The share of the rows of a partition that come before a row or are equal to it."),
    PERCENT_RANK=("()", "RANK as a share, from 0 to 1: (rank - 1) / (rows of the partition - 1)."),
    LAG=("(value[, offset[, default]])", "The value that many rows earlier, by default one; else the default, or NULL."),
    LEAD=("(value[, offset[, default]])", "The value that many rows later, by default one; else the default, or NULL."),
    NTH_VALUE=("(value, n)", "The value of the nth row of the frame; NULL when it has fewer."),
)  # fmt: skip
"""Functions that have a value only over a window."""

_WINDOWS = _family(
    "SELECT window_start, … FROM TABLE({}) GROUP BY window_start, window_end",
    "docs/sql/windows.md",
    TUMBLE=("(TABLE t, DESCRIPTOR(time), size[, offset])", "Puts each row into one window of fixed size."),
    HOP=("(TABLE t, DESCRIPTOR(time), slide, size[, offset])",
         "Puts each row into windows of fixed size, a new one of which begins every slide."),
    CUMULATE=("(TABLE t, DESCRIPTOR(time), step, size[, offset])",
              "Puts each row into windows of one beginning, which grow by a step up to a size."),
    SESSION=("(TABLE t [PARTITION BY key], DESCRIPTOR(time), gap)",
             "Puts rows into windows that end when no row has come for a gap."),
)  # fmt: skip

_BOUNDS = {
    "START": "The beginning",
    "END": "The end",
    "ROWTIME": "The row time",
    "PROCTIME": "The processing time",
}
_GROUP_WINDOWS = {
    name: function
    for window, arguments in (
        ("TUMBLE", "time, size"),
        ("HOP", "time, slide, size"),
        ("SESSION", "time, gap"),
    )
    for name, function in _family(
        f"SELECT {{}} … GROUP BY {window}({arguments})",
        "docs/sql/windows.md",
        **{
            f"{window}_{bound}": (f"({arguments})", f"{what} of a group window.")
            for bound, what in _BOUNDS.items()
        },
    ).items()
}

_GROUPING = _family(
    "SELECT {} … GROUP BY ROLLUP | CUBE | GROUPING SETS (…)",
    "docs/sql/queries.md",
    GROUPING=("(key, …)", "A bit for each key, which is 1 where the row's set leaves the key out."),
    GROUPING_ID=("(key, …)", "GROUPING, by another name."),
    GROUP_ID=("()", "Counts equal grouping sets, from 0."),
)

_MATCH = _family(
    "FROM t MATCH_RECOGNIZE (… {} …)",
    "docs/sql/match-recognize.md",
    CLASSIFIER=("([variable])", "The pattern variable of a row of a match."),
    MATCH_NUMBER=("()", "Counts the matches of a partition."),
    MATCH_ROWTIME=("()", "The row time of the last row of a match."),
    MATCH_PROCTIME=("()", "The processing time at which a match was found."),
    FIRST=("(variable.column[, n])", "The value n rows behind the first row of a pattern variable, by default 0."),
    LAST=("(variable.column[, n])", "The value n rows before the last row of a pattern variable, by default 0."),
    PREV=("(column[, n])", "The value n rows before a row of the partition, by default 1."),
    NEXT=("(column[, n])", "The value n rows behind a row of the partition, by default 1."),
)  # fmt: skip

PLACED: dict[str, PlacedFunction] = OVER_FUNCTIONS | _WINDOWS | _GROUP_WINDOWS | _GROUPING | _MATCH
