"""A completion, and the protocol through which completion sees names and options."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class CandidateKind(enum.Enum):
    """What a candidate is; the order is the order of a menu."""

    COLUMN = "column"
    SOURCE = "source"
    TABLE = "table"
    VIEW = "view"
    FILE = "file"
    DATABASE = "database"
    CATALOG = "catalog"
    OPTION = "option"
    VALUE = "value"
    CONNECTOR = "connector"
    FORMAT = "format"
    JOB = "job"
    KEYWORD = "keyword"
    TYPE = "type"
    FUNCTION = "function"
    MODEL = "model"
    COMMAND = "command"


class Candidate(msgspec.Struct, frozen=True):
    """`text` replaces the characters from `start` to the cursor. `detail` says more in a few words: a type, a default."""

    text: str
    kind: CandidateKind
    detail: str
    start: int


class Name(msgspec.Struct, frozen=True):
    """A name with a word about it: a column and its type, a table and its kind, a job and its state."""

    text: str
    detail: str = ""


class OptionName(msgspec.Struct, frozen=True):
    """An option's key, what it means, and its values where they can be listed. `#` in a key stands for a column."""

    key: str
    detail: str = ""
    choices: tuple[str, ...] = ()


class Vocabulary(Protocol):
    """The names of one session. Every call is cheap, bounded, and returns nothing for a name that it does not know: it never
    raises. An empty `catalog` or `database` is the current one."""

    def catalogs(self) -> Sequence[str]: ...

    def databases(self, catalog: str) -> Sequence[str]: ...

    def tables(self, catalog: str, database: str) -> Sequence[Name]:
        """Tables and views; `detail` is "table" or "view"."""

    def columns(self, path: tuple[str, ...]) -> Sequence[Name]:
        """The columns of a table, of one beside it (`t$late`), or of a view; the path may leave out catalog and database."""

    def files(self, prefix: str) -> Sequence[Name]:
        """Paths of files and directories that begin with `prefix`; those of directories end with a slash."""

    def functions(self) -> Sequence[Name]:
        """Built-in functions in capitals, and those of users in small letters; `detail` is how one is called."""

    def settings(self) -> Sequence[OptionName]:
        """The keys of SET."""

    def connectors(self) -> Sequence[str]: ...

    def formats(self) -> Sequence[str]: ...

    def models(self) -> Sequence[str]:
        """The models of the current database."""

    def table_options(self, given: Mapping[str, str]) -> Sequence[OptionName]:
        """The keys of WITH, beside options that may or may not name the connector and formats."""

    def jobs(self) -> Sequence[Name]: ...
