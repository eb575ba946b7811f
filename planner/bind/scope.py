"""The columns that a name can mean at one place of a query."""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.foreign_names import column_hint
from sqlstream.planner.bind.names import suggest
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

_WITH_FIELDS = (TypeRoot.ROW, TypeRoot.VARIANT)


@dataclasses.dataclass(frozen=True)
class ScopeColumn:
    """`qualifier` is the alias of the column's table, or catalog, database and name. `is_plain`: an unqualified name can
    mean the column, which is False for the sides of JOIN … USING."""

    name: str
    type: LogicalType
    qualifier: tuple[str, ...] = ()
    is_plain: bool = True

    def __str__(self) -> str:
        return ".".join((*self.qualifier[-1:], self.name))


@dataclasses.dataclass(frozen=True)
class Scope:
    """Columns by position in the input row. `star` lists the columns that `*` expands to, in order."""

    columns: tuple[ScopeColumn, ...] = ()
    star: tuple[int, ...] = ()

    @staticmethod
    def of(schema: Schema, qualifier: tuple[str, ...] = ()) -> Scope:
        columns = tuple(ScopeColumn(f.name, f.type, qualifier) for f in schema.fields)
        return Scope(columns, tuple(range(len(columns))))

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        return tuple(dict.fromkeys(c.qualifier for c in self.columns))

    def star_of(self, qualifier: tuple[str, ...], span: Span | None) -> tuple[int, ...]:
        """The columns that `t.*` expands to."""
        found = tuple(i for i, c in enumerate(self.columns) if _matches(c, qualifier))
        if not found:
            self._fail_table(qualifier, span)
        return found

    def row_column(self, name: tuple[str, ...]) -> int | None:
        """The ROW column that `name.*` means when `name` is no table's."""
        if not name or any(_matches(c, name) for c in self.columns):
            return None
        found = self._lookup(name[:-1], name[-1])
        is_row = len(found) == 1 and self.columns[found[0]].type.root is TypeRoot.ROW
        return found[0] if is_row else None

    def resolve(self, parts: tuple[str, ...], span: Span | None) -> tuple[int, tuple[str, ...]]:
        """Column index and the nested field names after it. In `a.b`, column b of table a precedes field b of column a."""
        for length in range(min(3, len(parts) - 1), -1, -1):
            found = self._lookup(parts[:length], parts[length])
            if len(found) > 1:
                self._fail_ambiguous(parts[: length + 1], found, span)
            if found:
                rest = parts[length + 1 :]
                if rest and self.columns[found[0]].type.root not in _WITH_FIELDS:
                    self._fail_field(parts, length, found[0], span)
                return found[0], rest
        raise self._unknown(parts, span)

    def _fail_field(self, parts: tuple[str, ...], length: int, index: int, span: Span | None) -> NoReturn:
        """`a.b` where `a` is a column without fields: column b of a table a, or a value that has no b."""
        qualifier, name = parts[: length + 1], parts[length + 1]
        if any(_matches(c, qualifier) for c in self.columns):
            raise self._unknown(parts[: length + 2], span)
        column = self.columns[index]
        shown = str(column.type.without_time_attribute().with_nullable(True))
        if column.type.root is TypeRoot.MAP:
            hint = f"write {'.'.join(qualifier)}['{name}']"
        elif column.type.root in (TypeRoot.ARRAY, TypeRoot.MULTISET):
            hint = f"write {'.'.join(qualifier)}[1] for an element, or UNNEST it in FROM"
        elif length == 0:
            hint = f'"{qualifier[-1]}" is a column here; no table of FROM has this name'
        else:
            hint = f"leave .{name} out"
        raise UserError(
            "SS2003",
            f'column "{".".join(qualifier)}" is {shown} and has no field "{name}"',
            span=span,
            hint=hint,
        )

    def _lookup(self, qualifier: tuple[str, ...], name: str) -> list[int]:
        return [
            i
            for i, c in enumerate(self.columns)
            if c.name == name and (_matches(c, qualifier) if qualifier else c.is_plain)
        ]

    def _fail_ambiguous(self, parts: tuple[str, ...], found: list[int], span: Span | None) -> NoReturn:
        candidates = [str(self.columns[i]) for i in found]
        distinct = len(set(candidates)) == len(candidates)
        raise UserError(
            "SS2004",
            f'column "{".".join(parts)}" is ambiguous',
            span=span,
            detail=f"it could be {' or '.join(dict.fromkeys(candidates))}",
            hint="write the table's name before it"
            if distinct
            else "give the columns different names with AS",
        )

    def _unknown(self, parts: tuple[str, ...], span: Span | None) -> UserError:
        if len(parts) > 1:
            qualified = [c for c in self.columns if _matches(c, parts[:-1])]
            if not qualified:
                self._fail_table(parts[:-1], span)
            place, name, columns = f' in table "{".".join(parts[:-1])}"', parts[-1], qualified
        else:
            tables = [".".join(q[-1:]) for q in self.qualifiers if q]
            place = f' in table "{tables[0]}"' if len(tables) == 1 else ""
            name, columns = parts[0], list(self.columns)
        hint = column_hint(name) if len(parts) == 1 else ""
        hint = (
            hint
            or suggest(name, [c.name for c in columns], "columns")
            or ("" if self.columns else "this query has no FROM; put text in single quotes")
        )
        return UserError("SS2003", f'column "{name}" does not exist{place}', span=span, hint=hint)

    def _fail_table(self, qualifier: tuple[str, ...], span: Span | None) -> NoReturn:
        tables = [q[-1] for q in self.qualifiers if q]
        unnamed = "name the columns alone, or give what stands in FROM a name with AS" if self.columns else ""
        raise UserError(
            "SS2001",
            f'"{".".join(qualifier)}" is not a table of this query\'s FROM',
            span=span,
            hint=suggest(qualifier[-1], tables) if tables else unnamed,
        )


def nested_field(t: LogicalType, name: str, span: Span | None) -> int:
    """Position of a ROW's field; UserError SS2003 with a suggestion when there is none."""
    if t.root is not TypeRoot.ROW:
        raise UserError("SS2003", f'{t.without_time_attribute()} has no field "{name}"', span=span)
    names = [f.name for f in t.fields]
    if name not in names:
        raise UserError(
            "SS2003", f'field "{name}" does not exist in {t}', span=span, hint=suggest(name, names, "fields")
        )
    return names.index(name)


def _matches(column: ScopeColumn, qualifier: tuple[str, ...]) -> bool:
    return bool(qualifier) and column.qualifier[-len(qualifier) :] == qualifier
