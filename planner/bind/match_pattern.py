"""Patterns of MATCH_RECOGNIZE → programs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.match_recognize import (
    Alternation,
    Concatenation,
    Exclusion,
    Pattern,
    PatternVariable,
    Permutation,
    Quantified,
)
from sqlstream.specs.match_recognize import ACCEPT, CONSUME, JUMP, SPLIT, Instruction

PROGRAM_MAX = 1_000
"""Instructions of a program; a quantifier {n,m} repeats its part."""


def variables_of(pattern: Pattern) -> dict[str, Span]:
    """The variables in order of their first place."""
    match pattern:
        case PatternVariable():
            return {pattern.name: pattern.span}
        case Quantified() | Exclusion():
            return variables_of(pattern.part)
    found: dict[str, Span] = {}
    for part in pattern.parts:
        for name, place in variables_of(part).items():
            found.setdefault(name, place)
    return found


def can_be_empty(pattern: Pattern) -> bool:
    """Whether the pattern matches without a row."""
    match pattern:
        case PatternVariable():
            return False
        case Quantified():
            return pattern.least == 0 or can_be_empty(pattern.part)
        case Exclusion():
            return can_be_empty(pattern.part)
        case Alternation():
            return any(can_be_empty(part) for part in pattern.parts)
    return all(can_be_empty(part) for part in pattern.parts)


def print_pattern(pattern: Pattern) -> str:
    """The pattern as SQL, for EXPLAIN."""
    match pattern:
        case PatternVariable():
            return pattern.name
        case Concatenation():
            return " ".join(
                _wrapped(p) if isinstance(p, Alternation) else print_pattern(p) for p in pattern.parts
            )
        case Alternation():
            return " | ".join(print_pattern(p) for p in pattern.parts)
        case Permutation():
            return f"PERMUTE({', '.join(print_pattern(p) for p in pattern.parts)})"
        case Exclusion():
            return f"{{- {print_pattern(pattern.part)} -}}"
    part = pattern.part
    text = (
        _wrapped(part) if isinstance(part, Concatenation | Alternation | Quantified) else print_pattern(part)
    )
    bounds = (pattern.least, pattern.most)
    sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(bounds)
    if sign is None:
        low, high = bounds
        sign = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
    return f"{text}{sign}{'?' if pattern.is_reluctant else ''}"


def _wrapped(pattern: Pattern) -> str:
    return f"({print_pattern(pattern)})"


def compile_pattern(
    pattern: Pattern, numbers: Mapping[str, int], span: Span | None
) -> tuple[Instruction, ...]:
    """The program of the pattern, whose variables have these numbers. UserError SS3421 when it is too long."""
    compiler = _Compiler(numbers, span)
    compiler.add(pattern, is_excluded=False)
    compiler.emit(Instruction(ACCEPT))
    return tuple(compiler.program)


class _Compiler:
    def __init__(self, numbers: Mapping[str, int], span: Span | None) -> None:
        self.program: list[Instruction] = []
        self._numbers = numbers
        self._span = span

    def emit(self, instruction: Instruction) -> int:
        if len(self.program) >= PROGRAM_MAX:
            raise UserError(
                "SS3421",
                f"the pattern needs more than {PROGRAM_MAX} steps",
                span=self._span,
                hint="lower the bounds of its quantifiers, or permute fewer variables",
            )
        self.program.append(instruction)
        return len(self.program) - 1

    def add(self, pattern: Pattern, is_excluded: bool) -> None:
        match pattern:
            case PatternVariable():
                self.emit(Instruction(CONSUME, self._numbers[pattern.name], is_excluded=is_excluded))
            case Concatenation():
                for part in pattern.parts:
                    self.add(part, is_excluded)
            case Exclusion():
                self.add(pattern.part, True)
            case Alternation():
                self._alternatives(pattern.parts, is_excluded)
            case Permutation():
                orders = itertools.permutations(pattern.parts)
                self._alternatives((Concatenation(order) for order in orders), is_excluded)
            case Quantified():
                self._repeat(pattern, is_excluded)

    def _alternatives(self, parts: object, is_excluded: bool) -> None:
        """Each part behind a SPLIT to the next; the number of permutations is bounded by that of instructions."""
        ends, before = [], -1
        for part in parts:  # type: ignore[attr-defined]
            if before >= 0:
                ends.append(self.emit(Instruction(JUMP)))
                self._second(before, len(self.program))
            before = self.emit(Instruction(SPLIT, len(self.program) + 1))
            self.add(part, is_excluded)
        # The last part has no other alternative.
        self.program[before] = Instruction(JUMP, before + 1)
        for end in ends:
            self.program[end] = Instruction(JUMP, len(self.program))

    def _second(self, place: int, target: int) -> None:
        self.program[place] = Instruction(SPLIT, self.program[place].first, target)

    def _repeat(self, pattern: Quantified, is_excluded: bool) -> None:
        for _ in range(pattern.least):
            self.add(pattern.part, is_excluded)
        # Turns beyond the least number consume a row each, so that none repeats for ever.
        turn = consuming(pattern.part) if can_be_empty(pattern.part) else pattern.part
        if turn is None:
            return
        if pattern.most is None:
            start = self.emit(Instruction(SPLIT))
            self.add(turn, is_excluded)
            self.emit(Instruction(JUMP, start))
            self._choose([start], pattern.is_reluctant)
            return
        choices = []
        for _ in range(pattern.most - pattern.least):
            choices.append(self.emit(Instruction(SPLIT)))
            self.add(turn, is_excluded)
        self._choose(choices, pattern.is_reluctant)

    def _choose(self, choices: list[int], is_reluctant: bool) -> None:
        end = len(self.program)
        for place in choices:
            targets = (end, place + 1) if is_reluctant else (place + 1, end)
            self.program[place] = Instruction(SPLIT, *targets)


def consuming(pattern: Pattern) -> Pattern | None:
    """The pattern without its empty match; None when it has no other.

    >>> from sqlstream.errors import Span
    >>> a, b = (Quantified(PatternVariable(v, Span(0, 1)), 0, 1, False, Span(0, 1)) for v in "AB")
    >>> print_pattern(consuming(Concatenation((a, b))))
    'A B? | B'
    """
    if not can_be_empty(pattern):
        return pattern
    match pattern:
        case Alternation():
            return _either([consuming(part) for part in pattern.parts])
        case Exclusion():
            part = consuming(pattern.part)
            return None if part is None else Exclusion(part, pattern.span)
        case Permutation():
            orders = itertools.permutations(pattern.parts)
            return _either([consuming(Concatenation(order)) for order in orders])
        case Quantified():
            part = consuming(pattern.part)
            if part is None:
                return None
            most = None if pattern.most is None else pattern.most
            if most == 1:
                return part
            return Quantified(part, 1, most, pattern.is_reluctant, pattern.span)
        case Concatenation():
            return _consuming_sequence(pattern.parts)
    return pattern


def _consuming_sequence(parts: tuple[Pattern, ...]) -> Pattern | None:
    """All parts can be empty: either the first is not, or one of the rest is not."""
    if not parts:
        return None
    first, rest = consuming(parts[0]), _consuming_sequence(parts[1:])
    begins = None if first is None else Concatenation((first, *parts[1:]))
    is_reluctant = isinstance(parts[0], Quantified) and parts[0].is_reluctant
    return _either([rest, begins] if is_reluctant else [begins, rest])


def _either(parts: list[Pattern | None]) -> Pattern | None:
    found = tuple(part for part in parts if part is not None)
    if not found:
        return None
    return found[0] if len(found) == 1 else Alternation(found)
