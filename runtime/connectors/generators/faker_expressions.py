"""The expressions of connector `faker`: text with `#{Provider.method 'a','b'}` in it, and regular ones of `regexify`."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

_NAME = re.compile(r"\s*([A-Za-z]\w*(?:\.\w+)?)\s*")
_ARGUMENT = re.compile(r"'((?:[^']|'')*)'")
"""A quote inside of it is doubled, as in an expression that is itself an argument."""
_SEPARATORS = " \t\n,)"
"""Between arguments. Datafaker passes over a parenthesis there, which a much copied example has."""


@dataclass(frozen=True)
class Reference:
    """What stands in `#{…}`."""

    written: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        return folded(self.written)


def folded(name: str) -> str:
    """
    >>> folded("harry_potter.Characters")
    'harrypotter.characters'
    """
    return name.replace("_", "").lower()


def parse_expression(text: str) -> list[str | Reference]:
    """The parts of an expression; ValueError that says what is wrong.

    >>> parse_expression("a#{numerify '#'}")
    ['a', Reference(written='numerify', arguments=('#',))]
    >>> parse_expression("#{json 'a', '#{numerify ''#''}'}")
    [Reference(written='json', arguments=('a', "#{numerify '#'}"))]
    """
    parts: list[str | Reference] = []
    place = 0
    while (start := text.find("#{", place)) >= 0:
        if start > place:
            parts.append(text[place:start])
        reference, place = _reference(text, start + 2)
        parts.append(reference)
    if place < len(text):
        parts.append(text[place:])
    return parts


def _reference(text: str, place: int) -> tuple[Reference, int]:
    """The one that begins here, and where it ends."""
    named = _NAME.match(text, place)
    if named is None:
        raise ValueError("after #{ comes the name of a provider")
    place, arguments = named.end(), []
    while place < len(text) and text[place] != "}":
        if text[place] in _SEPARATORS:
            place += 1
            continue
        argument = _ARGUMENT.match(text, place)
        if argument is None:
            raise ValueError(
                f"arguments of {named.group(1)} stand in quotes: #{{number.numberBetween '1','9'}}"
            )
        arguments.append(argument.group(1).replace("''", "'"))
        place = argument.end()
    if place == len(text):
        raise ValueError(f"#{{{named.group(1)} has no closing brace")
    return Reference(named.group(1), tuple(arguments)), place + 1


# Regular expressions, as trees.


@dataclass(frozen=True)
class Letter:
    """Any one of these characters."""

    choices: str


@dataclass(frozen=True)
class Row:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Either:
    """One of them, each as often as any other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeated:
    part: Node
    least: int
    most: int


Node = Letter | Row | Either | Repeated

REPEATS_MAX = 1_000
_WIDTH_MAX = 10_000
_DEPTH_MAX = 50
_UNBOUNDED_EXTRA = 10
"""How often `*` and `+` repeat at most, beyond what they must."""

_PRINTABLE = "".join(chr(code) for code in range(32, 127))
_CLASSES = {
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_",
    "s": " ",
    "D": string.ascii_letters,
    "W": "!#$%&*+-=?@",
    "S": string.ascii_letters + string.digits,
}
_CONTROLS = {"t": "\t", "n": "\n"}
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")


def parse_regex(text: str) -> Node:
    """ValueError that says what is wrong."""
    return _Regex(text).parse()


def constant(node: Node) -> str | None:
    """The one text that matches; None where there are more."""
    letters = fixed_letters(node)
    if letters is None or any(len(choices) > 1 for choices in letters):
        return None
    return "".join(letters)


def fixed_letters(node: Node) -> list[str] | None:
    """The characters that each place of a text may have; None where texts differ in more."""
    match node:
        case Letter(choices):
            return [choices]
        case Row(parts):
            rows = [fixed_letters(part) for part in parts]
            return None if None in rows else [c for row in rows if row is not None for c in row]
        case Either(parts):
            return fixed_letters(parts[0]) if len(parts) == 1 else None
        case Repeated(part, least, most):
            inner = fixed_letters(part) if least == most else None
            return None if inner is None else inner * least


def _width(node: Node) -> int:
    """At least the characters of the longest text."""
    match node:
        case Letter():
            return 1
        case Row(parts) | Either(parts):
            return sum(map(_width, parts))
        case Repeated(part, _, most):
            return most * _width(part)


class _Regex:
    """State: the place in the text, and how many groups it is in."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._depth = text, 0, 0

    def parse(self) -> Node:
        node = self._either()
        if self._place < len(self._text):
            raise ValueError(f'")" at character {self._place + 1} closes nothing')
        return node

    def _next(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self) -> str:
        if self._place == len(self._text):
            raise ValueError("it ends too early")
        self._place += 1
        return self._text[self._place - 1]

    def _either(self) -> Node:
        parts = [self._row()]
        while self._next() == "|":
            self._take()
            parts.append(self._row())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _row(self) -> Node:
        parts = []
        while self._next() not in ("", "|", ")"):
            if self._next() in "^$":
                self._take()
            else:
                parts.append(self._counted(self._atom()))
        return Row(tuple(parts))

    def _atom(self) -> Node:
        letter = self._take()
        if letter == "(":
            if self._text.startswith("?:", self._place):
                self._place += 2
            elif self._next() == "?":
                raise ValueError("(?…) makes no text")
            self._depth += 1
            if self._depth > _DEPTH_MAX:
                raise ValueError(f"more than {_DEPTH_MAX} groups are in each other")
            inner = self._either()
            self._depth -= 1
            if self._take() != ")":
                raise ValueError('a "(" is not closed')
            return inner
        if letter == "[":
            return self._class()
        if letter == ".":
            return Letter(string.ascii_letters + string.digits)
        if letter == "\\":
            return Letter(self._escaped())
        if letter in "*+?{":
            raise ValueError(f'"{letter}" at character {self._place} repeats nothing')
        return Letter(letter)

    def _escaped(self) -> str:
        letter = self._take()
        return _CLASSES.get(letter) or _CONTROLS.get(letter, letter)

    def _class(self) -> Node:
        is_negated = self._next() == "^"
        if is_negated:
            self._take()
        choices = ""
        while (letter := self._take()) != "]" or not choices:
            found = self._escaped() if letter == "\\" else letter
            if (
                len(found) == 1
                and self._next() == "-"
                and self._text[self._place + 1 : self._place + 2] != "]"
            ):
                self._take()
                last = self._take()
                last = self._escaped() if last == "\\" else last
                if len(last) > 1 or last < found:
                    raise ValueError(f"[{found}-{last}] has no character")
                # Surrogates stand between others, and are no characters.
                codes = range(ord(found), ord(last) + 1)
                found = "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)
            choices += found
        kept = [c for c in _PRINTABLE if c not in choices] if is_negated else choices
        if not kept:
            raise ValueError("a [^…] has no character")
        return Letter("".join(dict.fromkeys(kept)))

    def _counted(self, node: Node) -> Node:
        counted = _COUNT.match(self._text, self._place)
        if counted is not None:
            self._place = counted.end()
            least = int(counted.group(1))
            most = int(counted.group(3) or least + _UNBOUNDED_EXTRA) if counted.group(2) else least
        elif self._next() and self._next() in "?*+":
            sign = self._take()
            least = int(sign == "+")
            most = 1 if sign == "?" else least + _UNBOUNDED_EXTRA
        else:
            return node
        if self._next() in ("?", "+"):  # which text is found, but not what matches
            self._take()
        if not least <= most <= REPEATS_MAX:
            raise ValueError(f"{{{least},{most}}} does not count upwards to {REPEATS_MAX} at most")
        if most * _width(node) > _WIDTH_MAX:
            raise ValueError(f"its texts would have more than {_WIDTH_MAX} characters")
        return node if least == most == 1 else Repeated(node, least, most)
