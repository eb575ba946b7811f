"""What statements and requests do beyond their session, and who may do it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from sqlstream.errors import Span, UserError

NOT_PERMITTED = "SS2037"
_NAMES_MAX = 3


class Right(enum.Enum):
    """What may be permitted, in the words of the error where it is not."""

    READ = "read tables"
    WRITE = "write tables"
    OBJECTS = "create, alter and drop tables, views, functions, models and databases"
    CATALOGS = "make, alter and drop catalogs"
    JOBS = "stop and change jobs"
    FILES = "name files and servers"
    HINTS = "change the options of tables by hints"
    PYTHON = "import Python modules"
    SERVER = "stop the server or change what it logs"


@dataclasses.dataclass(frozen=True)
class Effects:
    """What a bound statement, or a part of it, does beyond its session.

    Each set holds names, for the error. `reads` and `writes` are the tables of a job. `objects` and `catalogs` are created,
    altered or dropped. `jobs` are ended, rescaled or saved. `files` are paths and addresses that the statement or a setting
    names, rather than a table of the catalog. `hinted` are tables whose options a hint of the statement replaces. `modules` are
    imported. `changes_server`: the server is stopped, or logs something else. A statement that is not run, as under EXPLAIN,
    has the effects of its planning alone."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    catalogs: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    hinted: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    changes_server: bool = False

    def __or__(self, other: Effects) -> Effects:
        """The effects of both.

        >>> sorted((Effects(reads=frozenset({"a"})) | Effects(reads=frozenset({"b"}))).reads)
        ['a', 'b']
        """
        names = (field.name for field in dataclasses.fields(self))
        return Effects(**{name: getattr(self, name) | getattr(other, name) for name in names})

    def needed(self) -> Iterator[tuple[Right, frozenset[str]]]:
        """The rights that these effects need, each with what it is needed for."""
        needed = {
            Right.SERVER: frozenset({"the server"}) if self.changes_server else frozenset(),
            Right.CATALOGS: self.catalogs,
            Right.WRITE: self.writes,
            Right.OBJECTS: self.objects,
            Right.JOBS: self.jobs,
            Right.FILES: self.files,
            Right.HINTS: self.hinted,
            Right.PYTHON: self.modules,
            Right.READ: self.reads,
        }
        return ((right, names) for right, names in needed.items() if names)


@dataclasses.dataclass(frozen=True)
class Permit:
    """The rights of whoever runs a statement or makes a request. `who` names them in errors."""

    who: str
    rights: frozenset[Right]

    def allows(self, right: Right) -> bool:
        return right in self.rights

    def missing(self, effects: Effects) -> tuple[Right, frozenset[str]] | None:
        """The first right that is needed and lacks, with what it is needed for."""
        return next((need for need in effects.needed() if need[0] not in self.rights), None)

    def require(self, effects: Effects, span: Span | None = None) -> None:
        """UserError SS2037 that names the right which lacks."""
        lacking = self.missing(effects)
        if lacking is None:
            return
        right, names = lacking
        shown = [f'"{name}"' for name in sorted(names)[:_NAMES_MAX]]
        more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
        raise UserError(
            NOT_PERMITTED,
            f"{self.who} may not {right.value}",
            span=span,
            detail=f"this needs the right for {', '.join([*shown, *more])}",
            hint="ask for a token with a role that may",
        )


ALL = Permit("everybody", frozenset(Right))
"""Where nobody is told apart."""
