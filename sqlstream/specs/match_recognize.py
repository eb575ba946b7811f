"""What MATCH_RECOGNIZE must do: a program that recognises rows, and the values that it outputs."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.expressions import Expression, SortKey
from sqlstream.function_ref import FunctionRef
from sqlstream.specs.spec import OperatorSpec, StateBound

CONSUME, SPLIT, JUMP, ACCEPT = 0, 1, 2, 3


class Instruction(msgspec.Struct, frozen=True, array_like=True):
    """One step of the program of a pattern.

    CONSUME maps the next row to variable `first` (`is_excluded`: inside of {- -}) and goes on behind it. SPLIT tries the
    instruction `first`, and if that leads to no match `second`. JUMP goes to `first`. ACCEPT ends the match.
    """

    op: int
    first: int = 0
    second: int = 0
    is_excluded: bool = False


class Navigation(msgspec.Struct, frozen=True, tag_field="operand", tag="navigation"):
    """Column `column` of a row of the match: of the rows that are mapped to `variables` (empty: to any) the `offset`-th from the
    last, or with `is_first` from the first, and then the row that is `shift` rows behind it in the partition (PREV: negative).

    `is_final` counts all rows of the match, else those up to the current row. NULL where there is no such row.
    """

    column: int
    variables: tuple[int, ...] = ()
    is_first: bool = False
    offset: int = 0
    shift: int = 0
    is_final: bool = False


class Classifier(msgspec.Struct, frozen=True, tag_field="operand", tag="classifier"):
    """The name of the variable that a row is mapped to, which is found as in `Navigation`."""

    variables: tuple[int, ...] = ()
    is_first: bool = False
    offset: int = 0
    is_final: bool = False


class MatchNumber(msgspec.Struct, frozen=True, tag_field="operand", tag="match_number"):
    """The number of the match within its partition, from 1."""


class MatchTime(msgspec.Struct, frozen=True, tag_field="operand", tag="match_time"):
    """The clock when the match is emitted, milliseconds since the epoch."""


class MatchAggregate(msgspec.Struct, frozen=True, tag_field="operand", tag="aggregate"):
    """Aggregate `function` over `arguments`, expressions over input columns, of the rows that are mapped to `variables`."""

    function: str
    arguments: tuple[Expression, ...]
    variables: tuple[int, ...] = ()
    is_distinct: bool = False
    is_final: bool = False
    filter: Expression | None = None
    ref: FunctionRef | None = None


Operand = Navigation | Classifier | MatchNumber | MatchTime | MatchAggregate


class MatchExpression(msgspec.Struct, frozen=True):
    """An expression whose input i is `operands[i]`."""

    expression: Expression
    operands: tuple[Operand, ...] = ()


class AfterMatch(enum.Enum):
    """Where the next match can begin."""

    PAST_LAST_ROW = "PAST LAST ROW"
    NEXT_ROW = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


class RowsPerMatch(enum.Enum):
    ONE = "ONE ROW PER MATCH"
    ALL = "ALL ROWS PER MATCH"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class MatchRecognizeSpec(OperatorSpec, frozen=True, tag="match_recognize"):
    """Rows of a partition in order of time, of `order` and of arrival are matched with `program`; input and output are
    insert-only.

    `time_column` -1 is processing time: the order of arrival. `conditions[v]` is that of variable v, None for TRUE; its
    expression sees the rows that are mapped so far and the current row, mapped to v. A match begins at each row that the one
    before it left (`after`, and for FIRST and LAST the variables `after_variables`), takes the alternatives in their order, and
    has no row `within_ms` (0: any time) or more after its first.
    ONE: the partition columns, then `measures`. ALL: the input columns, then `measures`.
    `holds_watermark`: the output has a time column, whose watermark waits for matches that can still end with rows before it.
    """

    partition_keys: tuple[int, ...]
    time_column: int
    order: tuple[SortKey, ...]
    program: tuple[Instruction, ...]
    variables: tuple[str, ...]
    conditions: tuple[MatchExpression | None, ...]
    measures: tuple[MatchExpression, ...]
    rows_per_match: RowsPerMatch
    after: AfterMatch
    after_variables: tuple[int, ...] = ()
    within_ms: int = 0
    holds_watermark: bool = False

    @property
    def looks_back(self) -> int:
        """The number of rows before a match that its expressions can read."""
        return max((-n.shift for n in self._navigations()), default=0)

    @property
    def looks_ahead(self) -> int:
        """The number of rows behind a row that its expressions can read."""
        return max((n.shift for n in self._navigations()), default=0)

    def _navigations(self) -> list[Navigation]:
        found = [c for c in (*self.conditions, *self.measures) if c is not None]
        return [Navigation(0), *(n for c in found for n in c.operands if isinstance(n, Navigation))]

    @property
    def numbers_matches(self) -> bool:
        return any(isinstance(o, MatchNumber) for m in self.measures for o in m.operands)

    def kept_state(self) -> str:
        numbers = ", and the number of its matches" if self.numbers_matches else ""
        within = f", or {self.within_ms} ms later" if self.within_ms else ""
        return f"the rows of each key that a match may begin with or have{numbers}; dropped: when none can{within}"

    def state_bound(self) -> StateBound:
        if self.within_ms and not self.looks_back and not self.numbers_matches:
            return StateBound(f"the rows that come within {self.within_ms} ms", True)
        if self.within_ms:
            return StateBound("the number of keys, and the rows of the interval of WITHIN", False)
        return StateBound("the rows of the longest unfinished match of each key", False)
