"""By what the state of an operator is found again, in this job or in another one."""

from __future__ import annotations

import msgspec

from sqlstream.bounds import Count


class KeptRows(msgspec.Struct, frozen=True):
    """A table of whole rows: what each of its last columns means, "" for one that is not of the row."""

    table: str
    columns: tuple[str, ...]

    def order(self, saved: KeptRows) -> tuple[int, ...]:
        """Where each column stands in what was saved, of a table with columns of the same meanings.

        >>> KeptRows("left", ("a", "b", "b", "")).order(KeptRows("left", ("b", "a", "b", "")))
        (1, 0, 2, 3)
        """
        places: dict[str, list[int]] = {}
        for place, meaning in enumerate(saved.columns):
            places.setdefault(meaning, []).append(place)
        return tuple(places[meaning].pop(0) for meaning in self.columns)


class Aspect(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the things that a state means: `name` is one of ASPECTS, and `parts` are digests, each with its SQL. Parts of equal
    digests mean the same, whatever they are called. `side` says which input of several, "left" or "right"."""

    name: str
    parts: tuple[tuple[str, str], ...]
    side: str = ""


ASPECTS = {
    "rows": "what it reads",
    "filter": "the filter below it",
    "keys": "its keys",
    "calls": "its calls",
    "windows": "its windows",
    "condition": "its condition",
    "order": "its order",
    "limit": "how many rows it keeps",
    "columns": "its columns",
    "kind": "its kind",
    "changes": "what comes to it",
    "operator": "the operator",
}
"""By the names of aspects, how a sentence about one begins."""


class ExpiredColumn(msgspec.Struct, frozen=True):
    """Column `place` of a table of state holds column `column` of the table with the identity `table`, and is saved as `name`
    when its row has expired."""

    place: Count
    table: str
    column: str
    name: str


class ExpiredState(msgspec.Struct, frozen=True):
    """A table of state, by its name, whose expired rows are kept for `t$expired`, with these of its columns. `tables` are the
    identities of the tables whose rows it holds, also where it holds no column as it was."""

    state: str
    tables: tuple[str, ...]
    columns: tuple[ExpiredColumn, ...]


class StateIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """`id` is a digest of what the state means. It leaves out names, places in the text, sinks, and options that do not change
    what rows mean; several operators of a job may share it. Then `feeds` tells them apart: the tables that the operator's rows
    reach, sorted, with "" for the client of a SELECT.

    `conditions` say which keys there are. They are not in `id`, because the state of a key is the same under each: what was kept
    under fewer of them holds the state that is needed under more.

    `sql` is the operator in SQL, and `line` its line in the statement, 0 where unknown: both are for people. `parts` are the
    tables of the operator whose names come from columns of the statement, in the order of its calls. `rows` are those whose
    columns come from it: their order counts for nothing.

    `aspects` are for people, too: they say of two states of other ids what differs between them. `expired` are the tables of the
    operator whose expired rows it keeps."""

    id: str
    sql: str
    feeds: tuple[str, ...] = ()
    line: Count = 0
    parts: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    rows: tuple[KeptRows, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    expired: tuple[ExpiredState, ...] = ()

    @property
    def title(self) -> str:
        """The operator as a user knows it.

        >>> StateIdentity("1f", "GROUP BY bidder (COUNT(*))", ("totals",), 3).title
        'GROUP BY bidder (COUNT(*)) of INSERT INTO totals, line 3'
        """
        tables = ", ".join(table for table in self.feeds if table)
        statement = f"INSERT INTO {tables}" if tables else "SELECT"
        place = f", line {self.line}" if self.line else ""
        return f"{self.sql} of {statement}{place}"
