"""Classes of characters in Java's regular expressions, as sets that RE2 and the engine of the package `regex` write alike."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator

LINE_BREAKS = "\\n\\v\\f\\r\x85\u2028\u2029"
r"""What \R and \v know, between brackets."""

_LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class CharacterClass:
    r"""The characters of `ranges` (ascending, apart) and those of the properties `names`, as in \p{…}; or all others."""

    ranges: Ranges = ()
    names: tuple[str, ...] = ()
    is_negated: bool = False

    @staticmethod
    def of(*ranges: tuple[int, int]) -> CharacterClass:
        return CharacterClass(_merged(ranges))

    @property
    def is_nothing(self) -> bool:
        return not self.ranges and not self.names and not self.is_negated

    def negated(self) -> CharacterClass:
        return dataclasses.replace(self, is_negated=not self.is_negated)

    def united(self, other: CharacterClass) -> CharacterClass:
        if self.is_negated or other.is_negated:
            # As a complement only where that needs no list of a property's characters.
            parts = [p if not p.is_negated else p._positive() for p in (self, other)]
            return parts[0].united(parts[1])
        return CharacterClass(
            _merged((*self.ranges, *other.ranges)), tuple(dict.fromkeys((*self.names, *other.names)))
        )

    def intersected(self, other: CharacterClass) -> CharacterClass:
        """By the complements, whose union is written as a negated class."""
        found = self.negated()._positive().united(other.negated()._positive()).negated()
        # Where case is ignored, a complement would lack both cases of what it lacks.
        return found if found.names else found._positive()

    def _positive(self) -> CharacterClass:
        """The same characters, not as a complement."""
        if not self.is_negated:
            return self
        if not self.names:
            return CharacterClass(_others(self.ranges))
        if not self.ranges and len(self.names) == 1:
            (name,) = self.names
            return CharacterClass((), (name[1:] if name.startswith("^") else f"^{name}",))
        listed = (r for name in self.names for r in property_ranges(name) or ())
        return CharacterClass(_others(_merged((*self.ranges, *listed))))

    def __str__(self) -> str:
        r"""In the syntax of both engines.

        >>> str(CharacterClass.of((97, 122), (48, 57)).negated()), str(CharacterClass((), ("^L",)))
        ('[^0-9a-z]', '\\P{L}')
        """
        if short := _SHORT.get(self):
            return short
        if not self.ranges and len(self.names) == 1:
            (name,) = self.names
            return _property_text(name, is_negated=self.is_negated)
        if not self.ranges and not self.names:
            return r"[\x00-\x{10FFFF}]" if self.is_negated else r"[^\x00-\x{10FFFF}]"
        items = [_character(a) if a == b else f"{_character(a)}-{_character(b)}" for a, b in self.ranges]
        items += [_property_text(name) for name in self.names]
        return f"[{'^' if self.is_negated else ''}{''.join(items)}]"


def _property_text(name: str, *, is_negated: bool = False) -> str:
    is_other = name.startswith("^") != is_negated
    return f"\\{'P' if is_other else 'p'}{{{name.removeprefix('^')}}}"


def _character(code: int) -> str:
    character = chr(code)
    if character in "\\[]^-&|~":
        return "\\" + character
    if code < 32 or code >= 127:
        return f"\\x{{{code:X}}}" if code > 255 or code >= 127 else f"\\x{code:02X}"
    return character


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def _others(ranges: Ranges) -> Ranges:
    ends = [-1, *(end for pair in ranges for end in pair), _LAST + 1]
    return tuple((a + 1, b - 1) for a, b in zip(ends[::2], ends[1::2], strict=True) if a + 1 <= b - 1)


@functools.lru_cache(50)
def property_ranges(name: str) -> Ranges | None:
    """The characters of a property, by the tables of `regex`; None for an unknown one. It looks at every character, in 0.1 s."""
    import regex

    try:
        runs = regex.compile(f"{_property_text(name)}+")
    except regex.error:
        return None
    return tuple((found.start(), found.end() - 1) for found in runs.finditer(_all_characters()))


def _all_characters() -> str:
    return "".join(map(chr, range(_LAST + 1)))


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """'09_az' as ranges: two characters each, and `_` twice for itself."""
    yield from ((ord(a), ord(b)) for a, b in zip(text[::2], text[1::2], strict=True))


def _ascii(pairs: str, *names: str) -> CharacterClass:
    return CharacterClass(_merged(_pairs(pairs)), names)


_DIGITS, _WORD = _ascii("09"), _ascii("09AZ__az")
_SPACES = _ascii("\t\r  ")
_HORIZONTAL = _ascii("\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000")
_VERTICAL = _ascii("\n\r\x85\x85\u2028\u2029")
_WHITE_SPACE = _ascii("\t\r\x85\x85", "Z")
_SHORT = {_DIGITS: r"\d", _DIGITS.negated(): r"\D", _WORD: r"\w", _WORD.negated(): r"\W"}
"""Classes with a name that RE2 knows; `regex` takes it with the flag a."""

_SHORTHANDS = {"d": _DIGITS, "w": _WORD, "s": _SPACES, "h": _HORIZONTAL, "v": _VERTICAL}
_UNICODE_SHORTHANDS = {
    "d": CharacterClass((), ("Nd",)),
    "w": CharacterClass(((0x200C, 0x200D),), ("Alphabetic", "M", "Nd", "Pc")),
    "s": _WHITE_SPACE,
}


def shorthand_class(letter: str, *, is_unicode: bool) -> CharacterClass | None:
    r"""\d, \w, \s, \h, \v, and their complements in capitals; None for another letter."""
    found = _UNICODE_SHORTHANDS.get(letter.lower()) if is_unicode else None
    found = found or _SHORTHANDS.get(letter.lower())
    return found.negated() if found is not None and letter.isupper() else found


_IDENTIFIER = ("L", "Nl", "Sc", "Pc")
_IGNORABLE = "\x00\x08\x0e\x1b\x7f\x9f"
_POSIX = {
    "Lower": _ascii("az"),
    "Upper": _ascii("AZ"),
    "ASCII": _ascii("\x00\x7f"),
    "Alpha": _ascii("AZaz"),
    "Digit": _DIGITS,
    "Alnum": _ascii("09AZaz"),
    "Punct": _ascii("!/:@[`{~"),
    "Graph": _ascii("!~"),
    "Print": _ascii(" ~"),
    "Blank": _ascii("\t\t  "),
    "Cntrl": _ascii("\x00\x1f\x7f\x7f"),
    "XDigit": _ascii("09AFaf"),
    "Space": _SPACES,
    "L1": _ascii("\x00\xff"),
    "all": CharacterClass(is_negated=True),
    "LC": CharacterClass((), ("Lu", "Ll", "Lt")),
    "javaLowerCase": CharacterClass((), ("Lowercase",)),
    "javaUpperCase": CharacterClass((), ("Uppercase",)),
    "javaAlphabetic": CharacterClass((), ("Alphabetic",)),
    "javaIdeographic": CharacterClass((), ("Ideographic",)),
    "javaMirrored": CharacterClass((), ("Bidi_Mirrored",)),
    "javaTitleCase": CharacterClass((), ("Lt",)),
    "javaDigit": CharacterClass((), ("Nd",)),
    "javaDefined": CharacterClass((), ("^Cn",)),
    "javaLetter": CharacterClass((), ("L",)),
    "javaLetterOrDigit": CharacterClass((), ("L", "Nd")),
    "javaSpaceChar": CharacterClass((), ("Z",)),
    "javaWhitespace": _ascii(
        "\t\r\x1c \u1680\u1680\u2000\u2006\u2008\u200a\u2028\u2029\u205f\u205f\u3000\u3000"
    ),
    "javaISOControl": _ascii("\x00\x1f\x7f\x9f"),
    "javaIdentifierIgnorable": _ascii(_IGNORABLE, "Cf"),
    "javaJavaIdentifierStart": CharacterClass((), _IDENTIFIER),
    "javaJavaIdentifierPart": _ascii(_IGNORABLE, *_IDENTIFIER, "Nd", "Mn", "Mc", "Cf"),
}
"""Names of Java that are no properties of Unicode."""

_BINARY = {
    "ALPHABETIC": CharacterClass((), ("Alphabetic",)),
    "LETTER": CharacterClass((), ("L",)),
    "IDEOGRAPHIC": CharacterClass((), ("Ideographic",)),
    "LOWERCASE": CharacterClass((), ("Lowercase",)),
    "UPPERCASE": CharacterClass((), ("Uppercase",)),
    "TITLECASE": CharacterClass((), ("Lt",)),
    "WHITE_SPACE": _WHITE_SPACE,
    "WHITESPACE": _WHITE_SPACE,
    "CONTROL": CharacterClass((), ("Cc",)),
    "PUNCTUATION": CharacterClass((), ("P",)),
    "HEX_DIGIT": _ascii("09AFaf\uff10\uff19\uff21\uff26\uff41\uff46"),
    "HEXDIGIT": _ascii("09AFaf\uff10\uff19\uff21\uff26\uff41\uff46"),
    "ASSIGNED": CharacterClass((), ("^Cn",)),
    "NONCHARACTER_CODE_POINT": CharacterClass((), ("Noncharacter_Code_Point",)),
    "DIGIT": CharacterClass((), ("Nd",)),
    "ALNUM": CharacterClass((), ("Alphabetic", "Nd")),
    "BLANK": _ascii("\t\t", "Zs"),
    "JOIN_CONTROL": _ascii("\u200c\u200d"),
}
r"""\p{Is…}, in any case."""

_CATEGORIES = frozenset({
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Cs",
})  # fmt: skip
"""General categories by the names that RE2 has; Cn is not among them."""


@functools.lru_cache(200)
def named_class(name: str) -> CharacterClass | None:
    r"""What \p{name} means in Java; None for an unknown name.

    >>> str(named_class("IsHan")), str(named_class("Alnum")), named_class("IsNothing")
    ('\\p{Han}', '[0-9A-Za-z]', None)
    """
    key, equals, value = name.partition("=")
    if equals:
        kinds = {"sc": _script, "script": _script, "blk": _block, "block": _block}
        kinds |= dict.fromkeys(("gc", "general_category"), _category)
        kind = kinds.get(key.lower())
        return None if kind is None else kind(value)
    if name in _POSIX:
        return _POSIX[name]
    if name.startswith("In"):
        return _block(name[2:])
    if name.startswith("Is"):
        rest = name[2:]
        return _BINARY.get(rest.upper()) or _category(rest) or _script(rest)
    return _category(name)


def _category(name: str) -> CharacterClass | None:
    if name in ("LC", "L1", "all"):
        return _POSIX[name]
    return CharacterClass((), (name,)) if name in _CATEGORIES or name == "Cn" else None


def _script(name: str) -> CharacterClass | None:
    titled = "_".join(part.capitalize() for part in name.split("_"))
    return CharacterClass((), (titled,)) if titled in _SCRIPTS else _listed(f"Script={titled}")


def _block(name: str) -> CharacterClass | None:
    return _listed(f"Block={name}")


def _listed(name: str) -> CharacterClass | None:
    found = property_ranges(name)
    return None if found is None else CharacterClass(found)


_SCRIPTS = frozenset({
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian",
    "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana",
    "Khmer", "Lao", "Latin", "Malayalam", "Mongolian", "Myanmar", "Sinhala", "Tamil", "Telugu", "Thaana", "Thai",
    "Tibetan",
})  # fmt: skip
"""Scripts that RE2 knows by name; of others all characters are listed."""

_RE2_NAMES = _CATEGORIES | _SCRIPTS


def written(found: CharacterClass) -> tuple[str, str]:
    """The class in RE2's syntax and in that of `regex`; properties that RE2 does not know are listed."""
    listed = [name for name in found.names if name.removeprefix("^") not in _RE2_NAMES]
    if listed:
        names = tuple(name for name in found.names if name not in listed)
        more = (r for name in listed for r in property_ranges(name) or ())
        found = CharacterClass(_merged((*found.ranges, *more)), names, found.is_negated)
    text = str(found)
    return text, _for_regex(text)


def _for_regex(text: str) -> str:
    r"""`regex` writes \x{10FFFF} as \U0010FFFF; \d and \w are those of ASCII."""
    text = _ASCII_SHORT.get(text, text)
    return re.sub(r"\\x\{([0-9A-F]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", text)


_ASCII_SHORT = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]"}
