r"""Regular expressions of the stream (RE2's syntax) in Java's syntax; what the two read otherwise is refused.

    expression ─ alternatives "|" ─ pieces ─ an atom (character, class, group, anchor), perhaps repeated

Java's `.`, `^` and `$` are told that lines end at \n alone, by the flag (?d). Both engines take the first alternative that
matches, so equal expressions find equal parts, except where an empty match may repeat: Java then goes on otherwise.
"""

from __future__ import annotations

import dataclasses
import re

from sqlstream.errors import UserError
from sqlstream.planner.lower.spark.scope import refuse

_SPACES = r"\t\n\f\r "
_BOUNDARY = (
    r"(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))",
    r"(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))",
)
_ESCAPED = {"v": r"\x0B", "a": r"\x07", "f": r"\f", "n": r"\n", "r": r"\r", "t": r"\t"}
_REPEAT = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")
_NUMBER = re.compile(r"[0-9A-F]{2}|\{[0-9A-F]+\}")
_PROPERTY = re.compile(r"\{(\w+)\}")
_FLAGS = re.compile(r"\(\?s\)")


@dataclasses.dataclass(frozen=True)
class JavaRegex:
    """`groups` capturing groups; `can_be_empty`: it may match without a character."""

    text: str
    groups: int
    can_be_empty: bool


def java_regex(regex: str) -> JavaRegex:
    """
    >>> java_regex(r"(a|b)+\\s$").text
    '(?d)(a|b)+[\\\\t\\\\n\\\\f\\\\r ]\\\\z'

    UserError SS3301 for what Java reads otherwise, or for a malformed expression.
    """
    reader = _Reader(regex)
    prefix = "(?d)"
    if flags := _FLAGS.match(regex):
        reader.place = flags.end()
        prefix = "(?ds)"
    body, can_be_empty = reader.alternatives()
    if reader.place < len(regex):
        raise reader.refused()
    return JavaRegex(prefix + body, reader.groups, can_be_empty)


def quoted(value: str) -> str:
    r"""An expression that matches this text.

    >>> print(quoted("a.b"))
    a\.b
    """
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value)


class _Reader:
    """Reads from `place` on, and counts groups."""

    def __init__(self, regex: str) -> None:
        self.regex = regex
        self.place = 0
        self.groups = 0

    def refused(self) -> UserError:
        return refuse(f'regular expression "{self.regex}"', hint="rewrite it in simpler terms")

    def _next(self, text: str) -> bool:
        if not self.regex.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def alternatives(self) -> tuple[str, bool]:
        """Java's text, and whether it can match without a character."""
        parts = [self._sequence()]
        while self._next("|"):
            parts.append(self._sequence())
        return "|".join(text for text, _ in parts), any(empty for _, empty in parts)

    def _sequence(self) -> tuple[str, bool]:
        texts, can_be_empty = [], True
        while self.place < len(self.regex) and self.regex[self.place] not in "|)":
            text, is_empty = self._repeated(*self._atom())
            texts.append(text)
            can_be_empty &= is_empty
        return "".join(texts), can_be_empty

    def _repeated(self, atom: str, is_empty: bool) -> tuple[str, bool]:
        found = _REPEAT.match(self.regex, self.place)
        if not found:
            return atom, is_empty
        self.place = found.end()
        times = found[0] + ("?" if self._next("?") else "")
        if _REPEAT.match(self.regex, self.place) or (is_empty and times[0] != "?"):
            raise self.refused()
        least = {"*": 0, "?": 0, "+": 1}.get(times[0])
        if least is None:
            least = int(re.findall(r"\d+", times)[0])
        return atom + times, is_empty or least == 0

    def _atom(self) -> tuple[str, bool]:
        character = self.regex[self.place]
        self.place += 1
        if character == "(":
            return self._group()
        if character == "[":
            return self._class(), False
        if character == "\\":
            return self._escape()
        if character in "^$":
            return {"^": "^", "$": r"\z"}[character], True
        if character in "*+?":
            raise self.refused()
        return character if character == "." else quoted(character), False

    def _group(self) -> tuple[str, bool]:
        if self._next("?:"):
            opening = "(?:"
        elif named := re.compile(r"\?P?<(\w+)>").match(self.regex, self.place):
            self.place = named.end()
            opening = "("
        elif self.regex.startswith("?", self.place):
            raise self.refused()
        else:
            opening = "("
        self.groups += opening == "("
        body, is_empty = self.alternatives()
        if not self._next(")"):
            raise self.refused()
        return f"{opening}{body})", is_empty

    def _escape(self) -> tuple[str, bool]:
        if self.place >= len(self.regex):
            raise self.refused()
        character = self.regex[self.place]
        self.place += 1
        if character in "dDwW":
            return f"\\{character}", False
        if character in "sS":
            return f"[{'^' if character == 'S' else ''}{_SPACES}]", False
        if character in "bB":
            return _BOUNDARY["bB".index(character)], True
        if character in "Az":
            return f"\\{character}", True
        if character in "xpP":
            return self._named(character), False
        if character in _ESCAPED:
            return _ESCAPED[character], False
        if character.isascii() and not character.isalnum():
            return f"\\{character}", False
        raise self.refused()

    def _class(self) -> str:
        """`[…]`. Java takes `[` and `&&` within it as operators."""
        is_negated = self._next("^")
        parts: list[str] = []
        while not (parts and self.regex.startswith("]", self.place)):
            if self.place >= len(self.regex) or self.regex.startswith(("[:", "[.", "[="), self.place):
                raise self.refused()
            parts.append(self._class_item())
        self.place += 1
        return f"[{'^' if is_negated else ''}{''.join(parts)}]"

    def _class_item(self) -> str:
        first = self._class_character()
        following = self.regex[self.place : self.place + 2]
        if len(following) < 2 or following[0] != "-" or following[1] == "]":
            return first
        self.place += 1
        last = self._class_character()
        if first in (_SPACES, r"\d", r"\w", r"\D", r"\W") or last in (_SPACES, r"\d", r"\w", r"\D", r"\W"):
            raise self.refused()
        return f"{first}-{last}"

    def _class_character(self) -> str:
        character = self.regex[self.place]
        self.place += 1
        if character != "\\":
            return f"\\{character}" if character in "[]&^-\\" else character
        if self.place >= len(self.regex):
            raise self.refused()
        escaped = self.regex[self.place]
        self.place += 1
        if escaped in "dDwW":
            return f"\\{escaped}"
        if escaped == "s":
            return _SPACES
        if escaped in _ESCAPED:
            return _ESCAPED[escaped]
        if escaped in "xpP":
            return self._named(escaped)
        if escaped.isascii() and not escaped.isalnum():
            return f"\\{escaped}"
        raise self.refused()

    def _named(self, letter: str) -> str:
        r"""A character by its number, or a property: scripts have names of more than two letters."""
        found = (
            _NUMBER.match(self.regex, self.place)
            if letter == "x"
            else _PROPERTY.match(self.regex, self.place)
        )
        if found is None:
            raise self.refused()
        self.place = found.end()
        is_script = letter != "x" and len(found[1]) > 2
        return f"\\{letter}{{Is{found[1]}}}" if is_script else f"\\{letter}{found[0]}"
