"""What a call, a catalog and a worker know of a function that a user has written in Python."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.types import LogicalType

ARGUMENTS_MAX = 255
"""The most arguments of a call of a function that takes any number of them."""


class FunctionKind(enum.Enum):
    SCALAR = "SCALAR"
    TABLE = "TABLE"
    AGGREGATE = "AGGREGATE"
    PROCESS_TABLE = "PROCESS_TABLE"
    PREDICT = "PREDICT"
    """A class that computes a model."""


class FunctionMode(enum.Enum):
    """GENERAL: called with the values of one row. ARROW: called with an Arrow array for each argument. ASYNC: a coroutine, of
    which several wait at the same time."""

    GENERAL = "general"
    ARROW = "arrow"
    ASYNC = "async"


class StateShape(enum.Enum):
    VALUE = "VALUE"
    LIST = "LIST"
    MAP = "MAP"


OUTPUT = "output"
"""The argument of a call that names a side output: reserved for functions that have one."""

DEFAULT_TTL = -1
"""The time to live of a state that declares none: `table.exec.state.ttl` holds."""


class DeclaredTable(msgspec.Struct, frozen=True):
    """A table argument of a process table function, with the names of its `traits` (process_functions.ArgumentTrait)."""

    name: str
    traits: tuple[str, ...]


class DeclaredState(msgspec.Struct, frozen=True):
    """A state of a process table function. `type` is SQL text: of a LIST an ARRAY, of a MAP a MAP."""

    name: str
    shape: StateShape
    type: str
    ttl_ms: int = DEFAULT_TTL


class DeclaredOutput(msgspec.Struct, frozen=True):
    """A side output of a process table function. `type` is SQL text, as that of the result."""

    name: str
    type: str


class DeclaredProcess(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process table function has besides a result and arguments. `deletes_rows`: its `mode` is RETRACT."""

    tables: tuple[DeclaredTable, ...]
    states: tuple[DeclaredState, ...] = ()
    deletes_rows: bool = False
    outputs: tuple[DeclaredOutput, ...] = ()
    changelog_mode: ChangelogMode = ChangelogMode.INSERT_ONLY

    @property
    def mode(self) -> ChangelogMode:
        """Of the output of `result_type`."""
        return ChangelogMode.RETRACT if self.deletes_rows else self.changelog_mode


class InspectedFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a Python object that a decorator of `sqlstream` made says of itself. Types are SQL text: who has a parser reads them.

    `argument_types` has an entry per parameter, empty for one that takes any type; `is_variadic`: the last stands for any
    number of arguments, also none. `optional` is how many of the parameters have a default. `methods` are those of an
    aggregate or a process table function, of whose `parameters` some are tables."""

    kind: FunctionKind
    mode: FunctionMode
    parameters: tuple[str, ...]
    argument_types: tuple[str, ...]
    result_type: str
    optional: int = 0
    is_variadic: bool = False
    is_deterministic: bool = True
    accumulator_type: str = ""
    methods: tuple[str, ...] = ()
    comment: str = ""
    process: DeclaredProcess | None = None


class FunctionRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user's function, as a call carries it. It names the Python object by its module: what the module has in it is no part of
    the plan, so that state outlives a corrected function.

    `path` is the function's name in SQL, for messages. An argument whose type is None takes any type; NULL for an argument that
    is NOT NULL makes the result NULL without a call. The `result_type` of a TABLE or PROCESS_TABLE function is the ROW of its
    columns. `state_types` are those of the states of `process`, in their order, and `output_types` the ROWs of its outputs."""

    path: str
    module: str
    attribute: str
    kind: FunctionKind
    mode: FunctionMode
    parameters: tuple[str, ...]
    argument_types: tuple[LogicalType | None, ...]
    result_type: LogicalType
    optional: int = 0
    is_variadic: bool = False
    is_deterministic: bool = True
    accumulator_type: LogicalType | None = None
    methods: tuple[str, ...] = ()
    process: DeclaredProcess | None = None
    state_types: tuple[LogicalType, ...] = ()
    output_types: tuple[LogicalType, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def args_min(self) -> int:
        return len(self.parameters) - self.optional - self.is_variadic

    @property
    def args_max(self) -> int:
        return ARGUMENTS_MAX if self.is_variadic else len(self.parameters)

    @property
    def usage(self) -> str:
        """How a call is written.

        >>> from sqlstream.types import BIGINT
        >>> FunctionRef("c.d.f", "m", "f", FunctionKind.SCALAR, FunctionMode.GENERAL, ("a", "b"), (BIGINT, None), BIGINT, 1).usage
        'f(a[, b])'
        """
        required = self.parameters[: self.args_min]
        rest = self.parameters[self.args_min :]
        names = list(self.parameters)
        if self.is_variadic:
            names[-1] = f"{names[-1]}, …"
        text = ", ".join(names[: len(required)])
        for place, name in enumerate(names[len(required) :]):
            text += f"[{', ' if required or place else ''}{name}"
        return f"{self.name}({text}{']' * len(rest)})"

    def argument_type(self, place: int) -> LogicalType | None:
        """The declared type of the argument at this place."""
        return self.argument_types[min(place, len(self.argument_types) - 1)]
