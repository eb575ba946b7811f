"""A CSV reader that takes one character at a time: slow, and plain enough to be compared with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t"


@dataclass
class Found:
    """Rows as lists of texts, and for each rejected record its first line, its text and the reason."""

    rows: list[list[str]] = field(default_factory=list)
    rejected: list[tuple[int, str, str]] = field(default_factory=list)


class _Fault(Exception):
    """Why a record is rejected: its field `number`, which begins at `start`."""

    def __init__(self, reason: str, number: int, start: int) -> None:
        super().__init__(reason)
        self.reason, self.number, self.start = reason, number, start


@dataclass
class CsvReference:
    """Reads `data` as Latin-1, in which each byte is one character."""

    data: str
    columns: list[str]
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    trims_spaces: bool = False
    allows_comments: bool = False
    allows_trailing_delimiter: bool = True
    ignores_extra_fields: bool = False

    def read(self) -> Found:
        found, at = Found(), 0
        while at < len(self.data):
            if self.allows_comments and self.data[at] == "#":
                at = self._behind_line(at)[1]
            elif self.data[at] in "\r\n" and len(self.columns) > 1:
                at += 1
            else:
                at = self._read_record(at, found)
        return found

    def _read_record(self, start: int, found: Found) -> int:
        line = self.data.count("\n", 0, start) + 1
        try:
            values, end = self._fields(start)
        except _Fault as fault:
            end, after = self._behind_line(fault.start)
            if fault.reason == "the file ends behind an escape character":
                end = after = len(self.data)
            where = f"field {fault.number}"
            if fault.number <= len(self.columns):
                where = f'column "{self.columns[fault.number - 1]}"'
            found.rejected.append((line, f"{fault.reason} in {where}", self.data[start:end]))
            return after
        wanted, count = len(self.columns), len(values)
        is_last_empty = not values[-1] and not (
            self.quote and self.data[:end].rstrip(_BLANKS).endswith(self.quote)
        )
        has_trailing = self.allows_trailing_delimiter and count == wanted + 1 and is_last_empty
        if count == wanted or has_trailing or (self.ignores_extra_fields and count > wanted):
            found.rows.append(values[:wanted])
        else:
            reason = f"it has {count} fields instead of {wanted}"
            found.rejected.append((line, reason, self.data[start:end]))
        return self._behind_line(end)[1]

    def _behind_line(self, at: int) -> tuple[int, int]:
        match = _LINE_END.search(self.data, at)
        return match.span() if match else (len(self.data), len(self.data))

    def _fields(self, at: int) -> tuple[list[str], int]:
        values: list[str] = []
        while True:
            if self.trims_spaces:
                at = self._behind_blanks(at)
            read = self._quoted if self.quote and self.data[at : at + 1] == self.quote else self._plain
            value, at = read(at, len(values) + 1)
            values.append(value)
            if self.data[at : at + 1] != self.delimiter:
                return values, at
            at += 1

    def _behind_blanks(self, at: int) -> int:
        while self.data[at : at + 1] in [b for b in _BLANKS if b != self.delimiter]:
            at += 1
        return at

    def _plain(self, at: int, number: int) -> tuple[str, int]:
        start, value, kept = at, "", 0
        while at < len(self.data) and self.data[at] not in self.delimiter + "\r\n":
            if self.escape and self.data[at] == self.escape:
                at += 1
                if at == len(self.data):
                    raise _Fault("the file ends behind an escape character", number, start)
                value += self.data[at]
                kept = len(value)
            else:
                value += self.data[at]
            at += 1
        if self.trims_spaces:
            value = value[:kept] + value[kept:].rstrip(_BLANKS)
        return value, at

    def _quoted(self, start: int, number: int) -> tuple[str, int]:
        at, value = start + 1, ""
        while at < len(self.data):
            c = self.data[at]
            if c == self.quote and self.data[at + 1 : at + 2] == self.quote:
                value += c
                at += 2
            elif c == self.quote:
                behind = self._behind_blanks(at + 1)
                if self.data[behind : behind + 1] in ("", self.delimiter, "\r", "\n"):
                    return value, behind
                if _LINE_END.search(self.data, start, at):
                    break
                raise _Fault("text stands behind the closing quote", number, start)
            elif c == self.escape and self.escape:
                value += self.data[at + 1 : at + 2]
                at += 2
            else:
                value += c
                at += 1
        raise _Fault("a quote is not closed", number, start)
