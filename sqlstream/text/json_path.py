"""The path language of JSON functions, as Jayway's JsonPath has it behind `lax` or `strict`: text to steps.

path    = ["lax" | "strict"] ["$"] step*
step    = .name  ['name', …]  [1, -1]  [from:to]  .*  [*]  ..  [?(condition)]  .length() at the end
operand = @ or $ with names and indexes   'text'   1.5   true   false   null
"""

from __future__ import annotations

import decimal
import re
from typing import NoReturn

import msgspec

from sqlstream.errors import UserError
from sqlstream.text.regular_expressions import linear_regex


class Members(msgspec.Struct, frozen=True):
    """Members by name; several of them, at the end of a path, are an object."""

    names: tuple[str, ...]


class Elements(msgspec.Struct, frozen=True):
    """Elements of an array by index, from the end where it is negative."""

    indexes: tuple[int, ...]


class Slice(msgspec.Struct, frozen=True):
    start: int | None
    stop: int | None


class Wildcard(msgspec.Struct, frozen=True):
    """All members or elements."""


class Scan(msgspec.Struct, frozen=True):
    """The objects and arrays at any depth, the value itself first."""


class Function(msgspec.Struct, frozen=True):
    """A function of the value before it: length(), size(), min(), max(), avg(), sum(), stddev()."""

    name: str


class Operand(msgspec.Struct, frozen=True):
    """A path without alternatives, from the tested value or from the document."""

    is_document: bool
    steps: tuple[Members | Elements | Function, ...]


Value = str | decimal.Decimal | bool | None | Operand | tuple["Value", ...]


class Test(msgspec.Struct, frozen=True):
    """A comparison; `operator` "exists" tests whether there is a value at `left`."""

    left: Value
    operator: str
    right: Value = None


class Connective(msgspec.Struct, frozen=True):
    """`operator` is "&&", "||" or "!", which has one part."""

    operator: str
    parts: tuple[Condition, ...]


Condition = Test | Connective


class Filter(msgspec.Struct, frozen=True):
    condition: Condition


Step = Members | Elements | Slice | Wildcard | Scan | Function | Filter


class Path(msgspec.Struct, frozen=True):
    is_lax: bool
    steps: tuple[Step, ...]


_MODE = re.compile(r"\s*(?:(lax|strict)\s+)?(.*)\Z", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^\s.\[\]()?,'\"@$*=!<>&|~]+")
_IN_PATH_NAME = re.compile(r"[^\s.\[\]()'\"*]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"-?\d{1,9}(?!\d)")
_OPERATOR = re.compile(r"==|!=|<=|>=|=~|<|>|(?:in|nin|size|empty)\b", re.IGNORECASE)
_REGEX = re.compile(r"/((?:[^/\\]|\\.)*)/([a-zA-Z]*)")
_BLANKS = re.compile(r"\s*")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
FUNCTIONS = frozenset({"length", "size", "min", "max", "avg", "sum", "stddev", "first", "last"})
_OTHER_FUNCTIONS = frozenset({"keys", "concat", "append", "index"})
_STEPS_MAX, _DEPTH_MAX = 100, 30


def parse_path(text: str) -> Path:
    """The steps of a path. UserError SS3450 at a place that is no part of one, SS3451 for a part that is not supported."""
    mode, spec = _MODE.match(text).groups()  # type: ignore[union-attr]
    return Path(bool(mode) and mode.lower() == "lax", _Reader(spec.rstrip()).path())


def has_mode(text: str) -> bool:
    return bool(_MODE.match(text)[1])  # type: ignore[index]


class _Reader:
    """Reads one path from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def path(self) -> tuple[Step, ...]:
        if not self._text:
            self._fail("the path is empty")
        if not self._accept("$") and self._text[0] not in "[.":
            self._text = "." + self._text
        steps = self._steps()
        if self._at < len(self._text):
            self._fail("a step begins with . or [")
        return steps

    def _steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        while self._peek() in (".", "["):
            steps += self._step()
            if len(steps) > _STEPS_MAX:
                self._fail(f"a path has at most {_STEPS_MAX} steps")
        for step in steps[:-1]:
            if isinstance(step, Function):
                raise _unsupported(f"{step.name}() before the end of a path")
        return tuple(steps)

    def _step(self) -> list[Step]:
        scan: list[Step] = []
        if self._accept(".."):
            scan = [Scan()]
        elif not self._accept("."):
            return [self._bracket()]
        if self._peek() == "[":
            return [*scan, self._bracket()]
        if self._accept("*"):
            return [*scan, Wildcard()]
        found = _IN_PATH_NAME.match(self._text, self._at)
        if found is None:
            self._fail("a name is missing")
        self._at = found.end()
        if self._peek() != "(":
            return [*scan, Members((found[0],))]
        return [*scan, self._function(found[0])]

    def _function(self, name: str) -> Step:
        self._at += 1
        self._skip()
        if name in _OTHER_FUNCTIONS or (name in FUNCTIONS and self._peek() != ")"):
            raise _unsupported(f"{name}()" if name in _OTHER_FUNCTIONS else f"{name}(…) with arguments")
        if name not in FUNCTIONS:
            self._fail(f'there is no function "{name}"')
        self._expect(")")
        if name in ("first", "last"):
            return Elements((0 if name == "first" else -1,))
        return Function(name)

    def _bracket(self) -> Step:
        self._expect("[")
        self._skip()
        if self._accept("*"):
            step: Step = Wildcard()
        elif self._peek() == "?":
            step = self._filter()
        elif self._peek() in ("'", '"'):
            names = [self._quoted()]
            while self._accept_spaced(","):
                self._skip()
                names.append(self._quoted())
            step = Members(tuple(names))
        else:
            step = self._indexes()
        self._skip()
        self._expect("]")
        return step

    def _indexes(self) -> Step:
        start = self._integer()
        if self._accept_spaced(":"):
            stop = self._integer()
            if start is None and stop is None:
                self._fail("a slice has a start or an end")
            if self._accept_spaced(":"):
                raise _unsupported("a step in a slice")
            return Slice(start, stop)
        if start is None:
            self._fail("an index, a name in quotes, * or ?(…) is missing")
        indexes = [start]
        while self._accept_spaced(","):
            following = self._integer()
            if following is None:
                self._fail("an index is missing")
            indexes.append(following)
        return Elements(tuple(indexes))

    def _filter(self) -> Filter:
        self._expect("?")
        self._skip()
        self._expect("(")
        condition = self._disjunction()
        self._skip()
        self._expect(")")
        return Filter(condition)

    def _disjunction(self) -> Condition:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            self._fail(f"a filter has at most {_DEPTH_MAX} levels")
        parts = [self._conjunction()]
        while self._accept_spaced("||"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Connective("||", tuple(parts))

    def _conjunction(self) -> Condition:
        parts = [self._test()]
        while self._accept_spaced("&&"):
            parts.append(self._test())
        return parts[0] if len(parts) == 1 else Connective("&&", tuple(parts))

    def _test(self) -> Condition:
        self._skip()
        if self._accept("!"):
            self._depth += 1
            inner = self._test()
            self._depth -= 1
            return Connective("!", (inner,))
        if self._accept("("):
            inner = self._disjunction()
            self._skip()
            self._expect(")")
            return inner
        left = self._value()
        self._skip()
        found = _OPERATOR.match(self._text, self._at)
        if found is None:
            if not isinstance(left, Operand):
                self._fail("an operator is missing")
            return Test(left, "exists")
        self._at = found.end()
        operator = found[0].lower()
        self._skip()
        right = self._right(operator)
        return Test(left, operator, right)

    def _right(self, operator: str) -> Value:
        if operator == "=~":
            found = _REGEX.match(self._text, self._at)
            if found is None:
                self._fail("a regular expression stands between slashes")
            self._at = found.end()
            if set(found[2]) - set("is"):
                raise _unsupported(f"the flags {found[2]} of a regular expression")
            regex = found[1].replace("\\/", "/")
            linear_regex(regex)
            return (f"(?{found[2]})" if found[2] else "") + regex
        if operator in ("in", "nin"):
            self._expect("[")
            values = []
            while not self._accept_spaced("]"):
                self._skip()
                values.append(self._value())
                if not self._accept_spaced(",") and not self._text.startswith("]", self._spaced()):
                    self._fail("a comma is missing")
            return tuple(values)
        return self._value()

    def _value(self) -> Value:
        if self._peek() in ("@", "$"):
            return self._operand()
        if self._peek() in ("'", '"'):
            return self._quoted()
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return decimal.Decimal(number[0])
        word = _NAME.match(self._text, self._at)
        if word is None or word[0].lower() not in _WORDS:
            self._fail("a value is missing: @ or $, a text in quotes, a number, true, false or null")
        self._at = word.end()
        return _WORDS[word[0].lower()]

    def _operand(self) -> Operand:
        is_document = self._text[self._at] == "$"
        self._at += 1
        start = self._at
        steps: list[Members | Elements | Function] = []
        while self._peek() in (".", "["):
            for step in self._operand_step():
                if not is_definite(step) or (isinstance(step, Members) and len(step.names) > 1):
                    raise _unsupported(f'"{self._text[start : self._at]}" in a filter')
                assert isinstance(step, Members | Elements | Function)
                steps.append(step)
        return Operand(is_document, tuple(steps))

    def _operand_step(self) -> list[Step]:
        if self._text.startswith("..", self._at) or not self._accept("."):
            return self._step()
        name = _NAME.match(self._text, self._at)
        if name is None:
            self._at -= 1
            return self._step()
        self._at = name.end()
        return [self._function(name[0])] if self._peek() == "(" else [Members((name[0],))]

    def _quoted(self) -> str:
        quote = self._peek()
        if quote not in ("'", '"') or not quote:
            self._fail("a name in quotes is missing")
        i = self._at + 1
        characters = []
        while i < len(self._text) and self._text[i] != quote:
            if self._text[i] == "\\" and i + 1 < len(self._text):
                i += 1
            characters.append(self._text[i])
            i += 1
        if i >= len(self._text):
            self._fail("the quote is not closed")
        self._at = i + 1
        return "".join(characters)

    def _integer(self) -> int | None:
        self._skip()
        found = _INTEGER.match(self._text, self._at)
        if found is None:
            if re.match(r"-?\d", self._text[self._at :]):
                self._fail("an index has at most 9 digits")
            return None
        self._at = found.end()
        return int(found[0])

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _spaced(self) -> int:
        return _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]

    def _skip(self) -> None:
        self._at = self._spaced()

    def _accept(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _accept_spaced(self, text: str) -> bool:
        if not self._text.startswith(text, self._spaced()):
            return False
        self._at = self._spaced() + len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(f'"{text}" is missing')

    def _fail(self, reason: str) -> NoReturn:
        before, after = self._text[: self._at], self._text[self._at :]
        place = f'behind "{before}"' if before else "at its start"
        raise UserError(
            "SS3450",
            f'the JSON path "{self._text}" is malformed {place}: {reason}',
            hint=_SPACE_HINT if after[:1].isspace() else "write a path such as $.items[0].name",
        )


_SPACE_HINT = "write a name with a blank in brackets and quotes: $['first name']"


def _unsupported(what: str) -> UserError:
    hint = "use names, indexes, slices, wildcards, filters with comparisons, and functions at the end"
    return UserError("SS3451", f"{what} is not supported in a JSON path", hint=hint)


def is_definite(step: Step) -> bool:
    """Whether a step leads to one value at most."""
    if isinstance(step, Elements):
        return len(step.indexes) == 1
    return isinstance(step, Members | Function)
