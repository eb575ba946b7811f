"""What a user is told beside a result, with how much it matters."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable


class Severity(enum.Enum):
    """The word that a remark begins with."""

    WARNING = "warning"
    """Rows were lost, or their values are not what the statement says. Told in any case."""
    NOTE = "note"
    """Nothing was lost. Left out where the user wants quiet."""


@dataclasses.dataclass(frozen=True)
class Remark:
    """`more` are the lines below it: a hint, or one line per event.

    >>> Remark(Severity.NOTE, "1 entry of state expired", ("hint: none",)).lines
    ('note: 1 entry of state expired', 'hint: none')
    """

    severity: Severity
    text: str
    more: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        return (f"{self.severity.value}: {self.text}", *self.more)


def lines_of(remarks: Iterable[Remark]) -> list[str]:
    """All lines, one remark after the other: how remarks travel to programs and other processes."""
    return [line for remark in remarks for line in remark.lines]


def read_remarks(lines: Iterable[str]) -> list[Remark]:
    """The inverse of `lines_of`. A first line without a severity begins a warning.

    >>> read_remarks(["warning: 2 rows were dropped", "hint: none", "note: done"])[1]
    Remark(severity=<Severity.NOTE: 'note'>, text='done', more=())
    """
    found: list[Remark] = []
    for line in lines:
        word, separator, text = line.partition(": ")
        severity = next((s for s in Severity if separator and s.value == word), None)
        if severity is not None:
            found.append(Remark(severity, text))
        elif found:
            found[-1] = dataclasses.replace(found[-1], more=(*found[-1].more, line))
        else:
            found.append(Remark(Severity.WARNING, line))
    return found
