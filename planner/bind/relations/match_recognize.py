"""MATCH_RECOGNIZE: its clauses over the columns of its input."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import InputRef, SortKey
from sqlstream.planner.bind.context import suggest
from sqlstream.planner.bind.expressions.casts import require_key, require_order
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.ordering import sort_key
from sqlstream.planner.bind.relations.match_expressions import MatchBinder, MatchVariables
from sqlstream.planner.bind.scope import FromItem, Namespace, Scope
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.match_recognize import (
    Alternation,
    Concatenation,
    Exclusion,
    Pattern,
    PatternVariable,
    Permutation,
    Quantified,
    SkipTo,
)
from sqlstream.planner.relational.nodes import MatchRecognize
from sqlstream.schema import Field, Schema
from sqlstream.specs import match_recognize
from sqlstream.types import TimeAttribute, TypeRoot

_ROWS = {
    "ONE": match_recognize.RowsPerMatch.ONE,
    "ALL": match_recognize.RowsPerMatch.ALL,
    "ALL OMIT": match_recognize.RowsPerMatch.ALL_OMIT_EMPTY,
    "ALL UNMATCHED": match_recognize.RowsPerMatch.ALL_WITH_UNMATCHED,
}
_AFTER = {
    "PAST": match_recognize.AfterMatch.PAST_LAST_ROW,
    "NEXT": match_recognize.AfterMatch.NEXT_ROW,
    "FIRST": match_recognize.AfterMatch.FIRST,
    "LAST": match_recognize.AfterMatch.LAST,
}


def bind_match_recognize(node: nodes.MatchRecognize, input: FromItem, namespace: Namespace) -> FromItem:
    """The matches over `input`. UserError SS342x for a clause that cannot be meant."""
    variables = _variables(node, namespace)
    partition = _columns(node.args.get("partition_by") or [], "PARTITION BY", input, namespace)
    order = _order(node, input, namespace)
    rows = _ROWS[str(node.args["rows"])]
    is_event_time = sql.is_rowtime(input.node.schema.types[order[0].column])
    pattern = node.args["pattern"]
    has_all_times = rows is not match_recognize.RowsPerMatch.ALL_WITH_UNMATCHED and not can_be_empty(pattern)
    binder = MatchBinder(
        namespace, input.scope, variables, rows, order[0].column if is_event_time else -1, has_all_times
    )
    conditions = _conditions(node, binder, variables)
    measures, fields = _measures(node, binder)
    own = input.node.schema.fields
    schema = Schema(
        (*(own if rows is not match_recognize.RowsPerMatch.ONE else (own[k] for k in partition)), *fields)
    )
    after = node.args["after"]
    match = MatchRecognize(
        input=input.node,
        schema=schema,
        span=namespace.span(node),
        partition_keys=partition,
        time_column=order[0].column,
        is_event_time=is_event_time,
        order=order[1:],
        pattern=print_pattern(pattern),
        program=compile_pattern(pattern, variables.numbers, namespace.span(node)),
        variables=tuple(variables.numbers),
        conditions=conditions,
        measures=measures,
        rows_per_match=rows,
        after=_AFTER[after.kind],
        after_variables=_skip_variables(after, variables, namespace),
        within_ms=_within_ms(node, namespace),
    )
    if not schema.fields:
        hint = "add MEASURES, PARTITION BY or ALL ROWS PER MATCH"
        message = "the matches have no columns"
        raise UserError("SS3424", message, span=namespace.span(node), hint=hint)
    return FromItem(match, Scope.of(schema))


def _place(span: Span, namespace: Namespace) -> Span:
    return span if namespace.fixed_span is None else namespace.fixed_span


def _variables(node: nodes.MatchRecognize, namespace: Namespace) -> MatchVariables:
    found = variables_of(node.args["pattern"])
    numbers = {name: number for number, name in enumerate(found)}
    subsets: dict[str, tuple[int, ...]] = {}
    for subset in node.args.get("subsets") or ():
        place = _place(subset.span, namespace)
        if subset.name in numbers or subset.name in subsets:
            message = f'"{subset.name}" is the name of another pattern variable'
            raise UserError("SS3422", message, span=place, hint="give the subset a name of its own")
        for member in subset.members:
            if member.name not in numbers:
                raise _unknown_variable(member.name, tuple(numbers), _place(member.span, namespace))
        subsets[subset.name] = tuple(sorted({numbers[m.name] for m in subset.members}))
    return MatchVariables(numbers, subsets)


def _unknown_variable(name: str, known: tuple[str, ...], span: Span | None) -> UserError:
    hint = suggest(name, list(known), "pattern variables")
    return UserError("SS3422", f'"{name}" is no variable of the pattern', span=span, hint=hint)


def _columns(written: list[exp.Expr], place: str, input: FromItem, namespace: Namespace) -> tuple[int, ...]:
    binder = ScalarBinder(namespace, input.scope, place)
    indexes = []
    for item in written:
        bound = require_key(binder.bind(item), place, binder.span(item))
        if not isinstance(bound, InputRef):
            hint = "compute it in a subquery that MATCH_RECOGNIZE reads"
            message = f"{place} of MATCH_RECOGNIZE takes columns only"
            raise UserError("SS3420", message, span=binder.span(item), hint=hint)
        indexes.append(bound.index)
    return tuple(dict.fromkeys(indexes))


def _order(node: nodes.MatchRecognize, input: FromItem, namespace: Namespace) -> tuple[SortKey, ...]:
    written = node.args.get("order_by") or []
    if not written:
        raise UserError(
            "SS3424",
            "MATCH_RECOGNIZE needs an ORDER BY",
            span=namespace.span(node),
            hint="order by a time attribute: ORDER BY ts",
        )
    binder = ScalarBinder(namespace, input.scope, "ORDER BY")
    keys = []
    for item in written:
        bound = require_order(binder.bind(item.this), binder.span(item.this))
        if not isinstance(bound, InputRef):
            message = "ORDER BY of MATCH_RECOGNIZE takes columns only"
            hint = "compute it in a subquery that MATCH_RECOGNIZE reads"
            raise UserError("SS3420", message, span=binder.span(item.this), hint=hint)
        keys.append(sort_key(item, bound.index))
    first = input.node.schema.fields[keys[0].column]
    if first.type.time_attribute is TimeAttribute.NONE:
        raise UserError(
            "SS3424",
            f'MATCH_RECOGNIZE is ordered by time first, but "{first.name}" is no time attribute',
            span=binder.span(written[0]),
            hint=f"declare WATERMARK FOR {first.name} AS … in the table, or order by a column AS PROCTIME()",
        )
    if keys[0].is_descending:
        message, hint = "MATCH_RECOGNIZE is ordered by ascending time", "leave DESC out"
        raise UserError("SS3424", message, span=binder.span(written[0]), hint=hint)
    return tuple(keys)


def _conditions(
    node: nodes.MatchRecognize, binder: MatchBinder, variables: MatchVariables
) -> tuple[match_recognize.MatchExpression | None, ...]:
    found: dict[str, match_recognize.MatchExpression] = {}
    for item in node.args["define"]:
        name, span = str(item.alias), binder.span(item)
        if name not in variables.numbers:
            if name in variables.subsets:
                message = f'"{name}" is a subset, which has no condition'
                raise UserError("SS3422", message, span=span, hint="define its members")
            raise _unknown_variable(name, tuple(variables.numbers), span)
        if name in found:
            raise UserError(
                "SS2012", f'"{name}" is defined twice', span=span, hint="join the conditions by AND"
            )
        found[name] = binder.bind_definition(item.this, variables.numbers[name])
    return tuple(found.get(name) for name in variables.numbers)


def _measures(
    node: nodes.MatchRecognize, binder: MatchBinder
) -> tuple[tuple[match_recognize.MatchExpression, ...], tuple[Field, ...]]:
    measures: list[match_recognize.MatchExpression] = []
    fields: list[Field] = []
    # Unmatched rows have no measures.
    has_others = node.args["rows"] == "ALL UNMATCHED"
    for item in node.args.get("measures") or ():
        name = str(item.alias)
        if any(f.name == name for f in fields):
            raise UserError("SS2012", f'measure "{name}" occurs twice', span=binder.span(item))
        measures.append(binder.bind_measure(item.this))
        t = measures[-1].expression.type
        fields.append(Field(name, t.with_nullable(True) if has_others else t))
    return tuple(measures), tuple(fields)


def _skip_variables(after: SkipTo, variables: MatchVariables, namespace: Namespace) -> tuple[int, ...]:
    if not after.variable:
        return ()
    found = variables.find(after.variable)
    if found is None:
        raise _unknown_variable(after.variable, variables.names, _place(after.span, namespace))
    return found


def _within_ms(node: nodes.MatchRecognize, namespace: Namespace) -> int:
    written = node.args.get("within")
    if written is None:
        return 0
    literal = bind_literal(written, namespace.span(written))
    if literal is None or literal.type.root is not TypeRoot.INTERVAL_DAY_TIME or int(str(literal.value)) <= 0:
        raise UserError(
            "SS3425",
            "WITHIN takes a positive interval literal of days to seconds",
            span=namespace.span(written),
        )
    return int(str(literal.value))


# Patterns of MATCH_RECOGNIZE → programs.


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
) -> tuple[match_recognize.Instruction, ...]:
    """The program of the pattern, whose variables have these numbers. UserError SS3421 when it is too long."""
    compiler = _Compiler(numbers, span)
    compiler.add(pattern, is_excluded=False)
    compiler.emit(match_recognize.Instruction(match_recognize.ACCEPT))
    return tuple(compiler.program)


class _Compiler:
    def __init__(self, numbers: Mapping[str, int], span: Span | None) -> None:
        self.program: list[match_recognize.Instruction] = []
        self._numbers = numbers
        self._span = span

    def emit(self, instruction: match_recognize.Instruction) -> int:
        if len(self.program) >= PROGRAM_MAX:
            raise UserError("SS3421", f"the pattern needs more than {PROGRAM_MAX} steps", span=self._span)
        self.program.append(instruction)
        return len(self.program) - 1

    def add(self, pattern: Pattern, is_excluded: bool) -> None:
        match pattern:
            case PatternVariable():
                self.emit(
                    match_recognize.Instruction(
                        match_recognize.CONSUME, self._numbers[pattern.name], is_excluded=is_excluded
                    )
                )
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
                ends.append(self.emit(match_recognize.Instruction(match_recognize.JUMP)))
                self._second(before, len(self.program))
            before = self.emit(match_recognize.Instruction(match_recognize.SPLIT, len(self.program) + 1))
            self.add(part, is_excluded)
        # The last part has no other alternative.
        self.program[before] = match_recognize.Instruction(match_recognize.JUMP, before + 1)
        for end in ends:
            self.program[end] = match_recognize.Instruction(match_recognize.JUMP, len(self.program))

    def _second(self, place: int, target: int) -> None:
        self.program[place] = match_recognize.Instruction(
            match_recognize.SPLIT, self.program[place].first, target
        )

    def _repeat(self, pattern: Quantified, is_excluded: bool) -> None:
        for _ in range(pattern.least):
            self.add(pattern.part, is_excluded)
        # Turns beyond the least number consume a row each, so that none repeats for ever.
        turn = consuming(pattern.part) if can_be_empty(pattern.part) else pattern.part
        if turn is None:
            return
        if pattern.most is None:
            start = self.emit(match_recognize.Instruction(match_recognize.SPLIT))
            self.add(turn, is_excluded)
            self.emit(match_recognize.Instruction(match_recognize.JUMP, start))
            self._choose([start], pattern.is_reluctant)
            return
        choices = []
        for _ in range(pattern.most - pattern.least):
            choices.append(self.emit(match_recognize.Instruction(match_recognize.SPLIT)))
            self.add(turn, is_excluded)
        self._choose(choices, pattern.is_reluctant)

    def _choose(self, choices: list[int], is_reluctant: bool) -> None:
        end = len(self.program)
        for place in choices:
            targets = (end, place + 1) if is_reluctant else (place + 1, end)
            self.program[place] = match_recognize.Instruction(match_recognize.SPLIT, *targets)


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
