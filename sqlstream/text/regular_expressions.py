r"""Java's regular expressions: parsed, and written anew for RE2, or for an engine that backtracks where RE2 cannot match them.

    alternatives = sequence ("|" sequence)*      sequence = (atom quantifier?)*
    quantifier   = ("*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}") ["?" | "+"]
    atom         = "." "^" "$" | character | escape | class | group | look-around

Lines end at \n alone, `$` is the end of the text, and \w, \d and \b know ASCII, as in RE2.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import NoReturn

from sqlstream.errors import UserError
from sqlstream.text.regex_classes import LINE_BREAKS, CharacterClass, named_class, shorthand_class, written


class MalformedRegex(UserError):
    """A text that is no regular expression: an error as a literal, no match as data."""


@dataclasses.dataclass(frozen=True)
class JavaRegex:
    """A regular expression of Java.

    `linear` is for RE2, and None where `backtracks` says what RE2 lacks; `backtracking` is for the engine of the package `regex`.
    In both, the `groups` capturing groups have their numbers and no names. Those of `missing` may take no part in a match, and
    have at least one character if they do. `can_be_empty`: it may match without a character.
    """

    java: str
    linear: str | None
    backtracking: str
    groups: int
    backtracks: str
    missing: frozenset[int]
    can_be_empty: bool
    has_anchors: bool


@functools.lru_cache(1_000)
def java_regex(java: str) -> JavaRegex:
    r"""The expression. UserError SS3104 (MalformedRegex) where it is none.

    >>> java_regex(r"\p{L}+[*+]a&&b").linear, java_regex("[a-z&&[^b]]++(?=c)").backtracks
    ('\\p{L}+[*-+]a&&b', 'a possessive quantifier')
    """
    reader = _Reader(java)
    found = reader.read()
    linear: str | None = found.linear
    if not reader.backtracks and not _is_of_re2(found.linear):
        # What RE2 does not know (a block, a script, many repetitions), the other engine may.
        reader.backtracks = "a construct that only Java supports"
    if reader.backtracks:
        linear = None
        _compile(java, found.backtracking)
    return JavaRegex(
        java,
        linear,
        found.backtracking,
        len(reader.names),
        reader.backtracks,
        frozenset(g for g in reader.optional if reader.widths[g]),
        not found.width,
        reader.has_anchors,
    )


def linear_regex(java: str) -> str:
    """The expression in RE2's syntax. UserError SS3104 for one that is malformed, or needs an engine that backtracks."""
    found = java_regex(java)
    if found.linear is None:
        raise UserError(
            "SS3104",
            f'regular expression "{java}" uses {found.backtracks}',
            hint="rewrite it without: this is matched in linear time, without backtracking",
        )
    return found.linear


def checked_re2(regex: str) -> str:
    """An expression in RE2's syntax, compiled once as a check. UserError SS3104 (MalformedRegex) where it is none."""
    if reason := _refusal(regex):
        raise MalformedRegex("SS3104", f'regular expression "{regex}" is malformed', detail=reason)
    return regex


def _is_of_re2(regex: str) -> bool:
    return not _refusal(regex)


def _refusal(regex: str) -> str:
    # Here, because few statements have an expression, and loading Arrow's functions takes time.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


def _compile(java: str, backtracking: str) -> None:
    import regex

    try:
        regex.compile(backtracking)
    except regex.error as error:
        message = f'regular expression "{java}" is malformed'
        raise MalformedRegex("SS3104", message, detail=str(error)) from error


@dataclasses.dataclass(frozen=True)
class _Text:
    """A part of the expression for both engines, and how many characters it has at least. `size`: of how many parts it is once
    its repetitions are written out, as the engines do."""

    linear: str
    backtracking: str
    width: int = 0
    size: int = 1

    @staticmethod
    def same(text: str, width: int = 0) -> _Text:
        return _Text(text, text, width)

    def __add__(self, other: _Text) -> _Text:
        return _Text(
            self.linear + other.linear,
            self.backtracking + other.backtracking,
            self.width + other.width,
            self.size + other.size,
        )


_EMPTY = _Text("", "")
_WORD = "[0-9A-Za-z_]"
_ANCHORS = {
    "A": _Text.same(r"\A"),
    "z": _Text(r"\z", r"\Z"),
    "b": _Text(r"\b", f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"),
    "B": _Text(r"\B", f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"),
}
_BACKTRACKING_ESCAPES = {
    "G": (r"\G", r"\G"),
    "Z": ("(?=(?:\\r\\n|[\\n\\r\x85\u2028\u2029])?\\Z)", r"\Z"),
    "X": (r"\X", r"\X"),
}
_LOOK_AROUND = {
    "?=": "look-ahead",
    "?!": "look-ahead",
    "?<=": "look-behind",
    "?<!": "look-behind",
    "?>": "an atomic group",
}
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(?:(,)(\d*))?\}")
_REPEATS_MAX = 1_000
"""RE2 repeats nothing more often."""
_SIZE_MAX = 100_000
"""Neither a text nor an expression whose repetitions are written out is longer: an engine needs 250 bytes for each part."""
_DIGITS_MAX = 10
_FLAGS = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?\)")
_FLAGS_OF_GROUP = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?:")
_STATES = {"x": "_comments", "U": "_unicode", "m": "_multiline"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class _Reader:
    """Reads from `place` on. State: the groups so far by name ("" for one without), which of them are optional, and the fewest
    characters that each has; what needs backtracking; the flags in force."""

    def __init__(self, java: str) -> None:
        self.java = java
        self.place = 0
        self.names: list[str] = []
        self.backtracks = ""
        self.optional: set[int] = set()
        self.widths: dict[int, int] = {}
        self.has_anchors = False
        self._comments = self._unicode = self._multiline = False
        self._group_flags: list[str] = []
        self._groups_open = 0

    def read(self) -> _Text:
        if len(self.java) > _SIZE_MAX:
            reason = f"it has more than {_SIZE_MAX:,} characters"
            raise MalformedRegex("SS3104", "a regular expression is too long", detail=reason)
        found = self._alternatives()
        if self.place < len(self.java):
            self._fail("unmatched closing ')'")
        return found

    def _fail(self, reason: str) -> NoReturn:
        detail = f"{reason}, at character {self.place + 1}"
        raise MalformedRegex("SS3104", f'regular expression "{self.java}" is malformed', detail=detail)

    def _needs(self, construct: str) -> None:
        self.backtracks = self.backtracks or construct

    def _next(self, text: str) -> bool:
        if not self.java.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def _take(self) -> str:
        if self.place >= len(self.java):
            self._fail("it ends too early")
        self.place += 1
        return self.java[self.place - 1]

    # -- sequences ---------------------------------------------------------------------------------

    def _alternatives(self) -> _Text:
        before, found = len(self.names), self._sequence()
        width = found.width
        while self._next("|"):
            more = self._sequence()
            found, width = found + _Text.same("|") + more, min(width, more.width)
            self.optional.update(range(before + 1, len(self.names) + 1))
        return dataclasses.replace(found, width=width)

    def _sequence(self) -> _Text:
        # Flags hold for the rest of their group. RE2 reads them so; `regex` gets groups, in each alternative.
        found = _Text("", "".join(f"(?{flags}:" for flags in self._group_flags))
        while self.place < len(self.java) and self.java[self.place] not in "|)":
            if self._comments and self._skipped():
                continue
            if self._next("\\Q"):
                found += self._quoted()
            elif flags := _FLAGS.match(self.java, self.place):
                found += self._flags(flags)
            else:
                before = len(self.names)
                found += self._repeated(self._atom(), before)
        return found + _Text("", ")" * len(self._group_flags))

    def _flags(self, found: re.Match[str]) -> _Text:
        """Flags that hold for the rest of the group around them."""
        self.place = found.end()
        flags = self._set_flags(found[1], found[2] or "")
        if not flags:
            return _EMPTY
        self._group_flags.append(flags)
        return _Text(f"(?{flags})", f"(?{flags}:")

    def _set_flags(self, on: str, off: str) -> str:
        """The flags that the engines know too, which read d and u as set."""
        for letter in "xUm":
            if letter in on + off:
                setattr(self, _STATES[letter], letter not in off)
        unset = "".join(c for c in "ims" if c in off)
        return "".join(c for c in "ims" if c in on and c not in off) + (f"-{unset}" if unset else "")

    def _skipped(self) -> bool:
        """Whether there is a blank or a comment, which the flag x makes nothing."""
        blank = re.compile(r"\s+|#[^\n]*").match(self.java, self.place)
        if blank:
            self.place = blank.end()
        return blank is not None

    def _quoted_text(self) -> str:
        r"""What stands behind \Q, up to \E or the end."""
        end = self.java.find("\\E", self.place)
        text = self.java[self.place : end if end >= 0 else None]
        self.place = len(self.java) if end < 0 else end + 2
        return text

    def _quoted(self) -> _Text:
        text = self._quoted_text()
        if not text:
            return _EMPTY
        return _joined(literal(ord(c)) for c in text[:-1]) + self._repeated(
            literal(ord(text[-1])), len(self.names)
        )

    def _repeated(self, atom: _Text, groups_before: int, quantifiers: int = 0) -> _Text:
        """The atom, which begins behind so many groups and has so many quantifiers, and its next one."""
        while self._comments and self._skipped():
            pass
        times = _QUANTIFIER.match(self.java, self.place)
        if times is None:
            if self.java.startswith("{", self.place):
                self._fail("illegal repetition")
            return atom
        if max(len(times[1] or ""), len(times[3] or "")) > _DIGITS_MAX or quantifiers > _DEPTH_MAX:
            self._fail("too many repetitions")
        self.place = times.end()
        low = int(times[1] or 0)
        high = low if times[2] is None else int(times[3] or low)
        if high < low:
            self._fail("illegal repetition range")
        written = times[0]
        if max(low, high) > _REPEATS_MAX:
            self._needs(f"more than {_REPEATS_MAX:,} repetitions")
        if self._next("?"):
            written += "?"
        elif self._next("+"):
            self._needs("a possessive quantifier")
            written += "+"
        if not low and times[0] != "+":
            self.optional.update(range(groups_before + 1, len(self.names) + 1))
        width = atom.width * (1 if times[0] == "+" else low)
        size = atom.size * max(1, low)
        if size > _SIZE_MAX:
            self.place = times.start()
            self._fail("too many repetitions")
        found = dataclasses.replace(atom + _Text.same(written), width=width, size=size)
        following = _QUANTIFIER.match(self.java, self.place)
        if following is None:
            return found
        if following[0] in "*+?":
            self._fail(f"dangling '{following[0]}'")
        wrapped = dataclasses.replace(_Text.same("(?:") + found + _Text.same(")"), width=width, size=size)
        return self._repeated(wrapped, groups_before, quantifiers + 1)

    # -- atoms -------------------------------------------------------------------------------------

    def _atom(self) -> _Text:
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._written(self._class())
            case "\\":
                return self._escape()
            case ".":
                return _Text.same(".", 1)
            case "^":
                self.has_anchors = True
                return _Text.same("^")
            case "$":
                # Without the flag m the end of the text: `regex` would match before a last line break too.
                return _Text("$", "$" if self._multiline else r"\Z")
            case "*" | "+" | "?":
                self.place -= 1
                self._fail(f"dangling '{character}'")
            case "{":
                self.place -= 1
                self._fail("illegal repetition")
        return literal(ord(character))

    def _group(self) -> _Text:
        self._groups_open += 1
        if self._groups_open > _DEPTH_MAX:
            self._fail(f"more than {_DEPTH_MAX} groups in each other")
        around = (self._comments, self._unicode, self._multiline, self._group_flags)
        self._group_flags = []
        opening, number = self._opening(), len(self.names)
        body = self._alternatives()
        if opening.linear == "(":
            self.widths[number] = body.width
        elif opening.linear.startswith(("(?=", "(?!", "(?<")):
            body = dataclasses.replace(body, width=0)
        if not self._next(")"):
            self._fail("unclosed group")
        self._comments, self._unicode, self._multiline, self._group_flags = around
        self._groups_open -= 1
        return opening + body + _Text.same(")")

    def _opening(self) -> _Text:
        if not self.java.startswith("?", self.place):
            self.names.append("")
            return _Text.same("(")
        for token in sorted(_LOOK_AROUND, key=len, reverse=True):
            if self._next(token):
                self._needs(_LOOK_AROUND[token])
                return _Text.same(f"({token}")
        if self._next("?<"):
            name = _NAME.match(self.java, self.place)
            if name is None:
                self._fail("the name of a group is missing")
            self.place = name.end()
            if name[0] in self.names:
                self._fail(f"two groups have the name '{name[0]}'")
            if not self._next(">"):
                self._fail("the name of a group ends with '>'")
            self.names.append(name[0])
            return _Text.same("(")
        flags = _FLAGS_OF_GROUP.match(self.java, self.place)
        if flags is None:
            self._fail("unknown inline modifier")
        self.place = flags.end()
        return _Text.same(f"(?{self._set_flags(flags[1], flags[2] or '')}:")

    def _written(self, found: CharacterClass) -> _Text:
        return _Text(*written(found), 1)

    # -- escapes -----------------------------------------------------------------------------------

    def _escape(self) -> _Text:
        letter = self._take()
        if letter in _ANCHORS:
            if letter == "b" and self._next("{g}"):
                self._fail(r"\b{g} is not supported")
            self.has_anchors = True
            return _ANCHORS[letter]
        if letter in _BACKTRACKING_ESCAPES:
            text, name = _BACKTRACKING_ESCAPES[letter]
            self._needs(name)
            return _Text("", text)
        if letter == "R":
            return _Text.same(rf"(?:\r\n|[{LINE_BREAKS}])", 1)
        if letter == "k":
            return self._named_reference()
        if letter in "123456789":
            return self._reference(int(letter))
        if (found := self._class_of(letter)) is not None:
            return self._written(found)
        return literal(self._code(letter))

    def _class_of(self, letter: str) -> CharacterClass | None:
        r"""The characters that \letter names, as \d, \p{…}; None where it names no class."""
        if letter in "pP":
            return self._property(is_negated=letter == "P")
        return shorthand_class(letter, is_unicode=self._unicode)

    def _property(self, *, is_negated: bool) -> CharacterClass:
        if self._next("{"):
            end = self.java.find("}", self.place)
            if end < 0:
                self._fail("unclosed character family")
            name = self.java[self.place : end]
            self.place = end + 1
        else:
            name = self._take()
        found = named_class(name)
        if found is None:
            self._fail(f"unknown character property '{name}'")
        return found.negated() if is_negated else found

    def _reference(self, number: int) -> _Text:
        """A number has as many digits as there are groups for."""
        while self.place < len(self.java) and self.java[self.place] in "0123456789":
            longer = 10 * number + int(self.java[self.place])
            if longer > len(self.names):
                break
            number, self.place = longer, self.place + 1
        self._needs("a back-reference")
        # A group that is not there, or comes later, has matched nothing.
        return _Text("", f"(?:\\{number})" if number <= len(self.names) else "(?!)")

    def _named_reference(self) -> _Text:
        name = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>").match(self.java, self.place)
        if name is None or name[1] not in self.names:
            self._fail("a group of this name does not exist")
        self.place = name.end()
        self._needs("a back-reference")
        return _Text("", f"(?:\\{self.names.index(name[1]) + 1})")

    def _code(self, letter: str) -> int:
        """The character that an escape stands for."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        match letter:
            case "x":
                if self._next("{"):
                    return self._hexadecimal(r"([0-9A-Fa-f]+)\}")
                return self._hexadecimal(r"([0-9A-Fa-f]{2})")
            case "u":
                code = self._hexadecimal(r"([0-9A-Fa-f]{4})")
                low = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})").match(self.java, self.place)
                if 0xD800 <= code < 0xDC00 and low:
                    self.place = low.end()
                    return 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
                return code
            case "0":
                digits = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?").match(self.java, self.place)
                if digits is None:
                    self._fail("illegal octal escape sequence")
                self.place = digits.end()
                return int(digits[0], 8)
            case "c":
                return ord(self._take()) ^ 64
            case "N":
                name = re.compile(r"\{([^}]+)\}").match(self.java, self.place)
                try:
                    code = ord(unicodedata.lookup(name[1])) if name else -1
                except KeyError:
                    code = -1
                if name is None or code < 0:
                    self._fail("unknown character name")
                self.place = name.end()
                return code
        if letter.isascii() and letter.isalpha():
            self._fail(f"illegal escape \\{letter}")
        return ord(letter)

    def _hexadecimal(self, form: str) -> int:
        digits = re.compile(form).match(self.java, self.place)
        if digits is None or int(digits[1], 16) > 0x10FFFF:
            self._fail("illegal hexadecimal escape sequence")
        self.place = digits.end()
        return int(digits[1], 16)

    # -- classes -----------------------------------------------------------------------------------

    def _class(self) -> CharacterClass:
        """`[…]`: unions of characters, ranges and classes; `&&` between them is their intersection."""
        self._groups_open += 1
        if self._groups_open > _DEPTH_MAX:
            self._fail(f"more than {_DEPTH_MAX} classes in each other")
        is_negated = self._next("^")
        found: CharacterClass | None = None
        part = CharacterClass.of()
        is_first = True
        while True:
            if self.place >= len(self.java):
                self._fail("unclosed character class")
            if self._comments and self._skipped():
                continue
            if self._next("&&"):
                # Nothing before the first && restricts nothing.
                found = found.intersected(part) if found is not None else None if part.is_nothing else part
                part = CharacterClass.of()
                while self._next("&"):
                    pass
            elif not is_first and self._next("]"):
                break
            else:
                part = part.united(self._member())
            is_first = False
        if found is not None:
            # Nothing behind the last && restricts nothing.
            part = found.intersected(part) if not part.is_nothing else found
        self._groups_open -= 1
        return part.negated() if is_negated else part

    def _member(self) -> CharacterClass:
        if self._next("["):
            return self._class()
        if self._next("\\Q"):
            return CharacterClass.of(*((ord(c), ord(c)) for c in self._quoted_text()))
        first = self._member_character()
        if isinstance(first, CharacterClass):
            return first
        following = self.java[self.place : self.place + 2]
        if len(following) < 2 or following[0] != "-" or following[1] in "[]" or following == "-&":
            return CharacterClass.of((first, first))
        self.place += 1
        last = self._member_character()
        if isinstance(last, CharacterClass) or last < first:
            self._fail("illegal character range")
        return CharacterClass.of((first, last))

    def _member_character(self) -> int | CharacterClass:
        character = self._take()
        if character != "\\":
            return ord(character)
        letter = self._take()
        found = self._class_of(letter)
        if found is not None:
            return found
        if letter in "123456789":
            self._fail("a class has no back-references")
        return self._code(letter)


_DEPTH_MAX = 100
"""Groups and classes in each other; more would need too many nested calls."""


def literal(code: int) -> _Text:
    """One character."""
    character = chr(code)
    if character in r"\.+*?()|[]{}^$":
        return _Text.same("\\" + character, 1)
    if code < 32 or code == 127 or 0xD800 <= code < 0xE000:
        return _Text(f"\\x{{{code:X}}}", f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}", 1)
    return _Text.same(character, 1)


def _joined(parts: Iterable[_Text]) -> _Text:
    found = _EMPTY
    for part in parts:
        found += part
    return found
