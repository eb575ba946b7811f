"""Functions of the user in queries in Python: CREATE FUNCTION for an object of Python, and calls of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.literals import text_literal
from sqlstream.client.dbapi.tables.expressions import (
    Aggregation,
    Computed,
    Expression,
    Names,
    Value,
    Written,
    listed,
)
from sqlstream.client.dbapi.tables.text import Writer, path_text
from sqlstream.function_ref import OUTPUT, FunctionKind, InspectedFunction
from sqlstream.process_functions import ProcessTableFunction, declared_function
from sqlstream.python_functions import DeclarationError, UserFunction

if TYPE_CHECKING:
    from sqlstream.client.dbapi.connection import Connection
    from sqlstream.client.dbapi.places import Place
    from sqlstream.client.dbapi.tables.query import DerivedTable, NamedTable

_HINT = "write it in a module, with a decorator of sqlstream, and import it from there"


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that the session has. It is called with columns and values: `initials(t.name)`."""

    name: str | tuple[str, ...]
    declared: InspectedFunction

    def __call__(self, *arguments: Value, distinct: bool = False) -> Expression:
        made = Aggregation if self.declared.kind is FunctionKind.AGGREGATE else Computed
        return made((path_text(self.name), "(", "DISTINCT " * distinct, *listed(arguments), ")"))


def create_function(
    connection: Connection, target: Any, name: str | tuple[str, ...], files: Sequence[str]
) -> Function:
    """Make a temporary function of a Python object. ProgrammingError SS3447 for one that is no function, or that no other process
    could import."""
    declared, inner, attribute = _located(target)
    named = name or attribute.lower()
    taken = files or _own_file(connection, inner)
    using = f" USING FILE {', '.join(map(text_literal, taken))}" if taken else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TEMPORARY FUNCTION IF EXISTS {path_text(named)}")
        target_text = text_literal(f"{inner.__module__}.{attribute}")
        cursor.execute(
            f"CREATE TEMPORARY FUNCTION {path_text(named)} AS {target_text} LANGUAGE PYTHON{using}"
        )
    return Function(named, declared)


def _located(target: Any) -> tuple[InspectedFunction, Any, str]:
    """What an object declares, the function or class of Python, and its name in its module."""
    is_process = isinstance(target, type) and issubclass(target, ProcessTableFunction)
    if not is_process and not isinstance(target, UserFunction):
        raise ProgrammingError(f"a {type(target).__name__} is no function of SQL", code="SS3447", hint=_HINT)
    try:
        declared = declared_function(target).declared if is_process else target.declared
    except DeclarationError as error:
        raise ProgrammingError(str(error), code="SS3447", hint=_HINT) from error
    inner = target if is_process else target.target
    # Of an aggregate there is an instance.
    inner = inner if hasattr(inner, "__qualname__") else type(inner)
    module, attribute = inner.__module__, inner.__qualname__
    if module == "__main__" or not attribute.isidentifier():
        where = "the program that runs" if module == "__main__" else "another function or class"
        said = f'"{attribute}" is in {where}, where no other process can import it'
        raise ProgrammingError(said, code="SS3447", hint=_HINT)
    return declared, inner, attribute


def _own_file(connection: Connection, inner: Any) -> list[str]:
    """The file of a function or class, which goes with the job where the plan is made in this process."""
    from sqlstream.client.connection.embedded import EmbeddedConnection

    # Not that of its module, which may be the one that was shipped with another function.
    members = [inner] if hasattr(inner, "__code__") else list(vars(inner).values())
    path = next((str(m.__code__.co_filename) for m in members if hasattr(m, "__code__")), "")
    # A module of a package is found by others where that is installed, or in 'python.files'.
    is_alone = "." not in inner.__module__ and path.endswith(".py")
    return [path] if is_alone and isinstance(connection.session, EmbeddedConnection) else []


@dataclasses.dataclass(frozen=True, eq=False)
class ProcessedTable:
    """A call of a process table function: tables by argument, each with its PARTITION BY and ORDER BY, and constants. `output` is
    the name of a side output."""

    function: Function
    tables: tuple[tuple[str, NamedTable | DerivedTable, tuple[str, ...], tuple[str, ...]], ...]
    constants: tuple[tuple[str, Expression], ...]
    time: str
    uid: str
    place: Place | None
    output: str = ""

    @property
    def name(self) -> str:
        return self.function.name if isinstance(self.function.name, str) else self.function.name[-1]

    def write(self, writer: Writer, names: Names) -> None:
        start = writer.length
        writer.add(f"{path_text(self.function.name)}(")
        separator = ""
        for argument, source, keys, order in self.tables:
            writer.add(f"{separator}{argument} => TABLE ")
            source.write(writer, names)
            writer.add(f" PARTITION BY ({', '.join(keys)})" if keys else "")
            writer.add(f" ORDER BY {', '.join(order)}" if order else "")
            separator = ", "
        parts: list[str | Written] = []
        for argument, value in self.constants:
            parts += [f"{separator}{argument} => ", value]
        if self.time:
            parts.append(f"{separator}on_time => DESCRIPTOR({self.time})")
        if self.uid:
            parts.append(f"{separator}uid => {text_literal(self.uid)}")
        if self.output:
            parts.append(f"{separator}{OUTPUT} => {text_literal(self.output)}")
        for part in parts:
            if isinstance(part, str):
                writer.add(part)
            else:
                part.write(writer, names)
        writer.add(")")
        writer.mark(start, self.place)
