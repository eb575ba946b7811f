"""Regular expressions as Java's are written and RE2 matches them: what is malformed, or needs backtracking, is refused."""

from __future__ import annotations

import re

from sqlstream.errors import UserError

_JAVA_ONLY = (
    ("(?=", "look-ahead"),
    ("(?!", "look-ahead"),
    ("(?<=", "look-behind"),
    ("(?<!", "look-behind"),
    ("(?>", "an atomic group"),
)


class MalformedRegex(UserError):
    """A text that is no regular expression: an error as a literal, no match as data."""


def checked_regex(regex: str) -> str:
    """The expression, compiled once as a check; UserError SS3104 when it is malformed or needs Java's backtracking engine."""
    stripped = re.sub(r"\\\\|\\[^1-9]", "", regex)
    found = next((name for token, name in _JAVA_ONLY if token in stripped), "")
    if not found and re.search(r"\\[1-9]", stripped):
        found = "a back-reference"
    if not found and re.search(r"[*+?}]\+", stripped):
        found = "a possessive quantifier"
    if not found and re.search(r"(?<!\\)(?:\\\\)*\\[GZRXhHeckN]|&&", regex):
        found = "a construct that only Java supports"
    if found:
        raise UserError(
            "SS3104",
            f'regular expression "{regex}" uses {found}',
            hint="rewrite it without: expressions are matched in linear time, without backtracking",
        )
    # Here, because few statements have an expression, and loading Arrow's functions takes time.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise MalformedRegex(
            "SS3104", f'regular expression "{regex}" is malformed', detail=str(error)
        ) from error
    return regex


_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((\?P?<(\w+)>|(?!\?))?", re.DOTALL)
_NAMED = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")


def replacement_parts(java: str, regex: str) -> list[str | int] | None:
    r"""What Java's `Matcher.appendReplacement` writes for a match: texts, and numbers of groups. None where it fails: for a group
    that the expression does not have, and for a `$` or backslash that begins nothing.

    >>> replacement_parts(r"$12-\$${n}", "(a)(?<n>b)")
    [1, '2-$', 2]
    >>> replacement_parts("$2", "(a)"), replacement_parts("5 $", "(a)")
    (None, None)
    """
    names = [m[2] or "" for m in _GROUP.finditer(regex) if m[0].startswith("(") and m[1] is not None]
    parts: list[str | int] = []
    text, at = "", 0
    while at < len(java):
        character, at = java[at], at + 1
        if character not in "\\$":
            text += character
            continue
        if at == len(java):
            return None
        if character == "\\":
            text, at = text + java[at], at + 1
            continue
        if named := _NAMED.match(java, at):
            number, at = (names.index(named[1]) + 1 if named[1] in names else -1), named.end()
        elif java[at] in "0123456789":
            number, at = int(java[at]), at + 1
            while at < len(java) and java[at] in "0123456789" and 10 * number + int(java[at]) <= len(names):
                number, at = 10 * number + int(java[at]), at + 1
        else:
            return None
        if not 0 <= number <= len(names):
            return None
        parts += [text, number] if text else [number]
        text = ""
    return [*parts, text] if text else parts


def re2_replacement(parts: list[str | int]) -> str:
    """The parts in RE2's syntax. UserError SS3104 for a group beyond the nine that it can name."""
    if any(isinstance(part, int) and part > 9 for part in parts):
        hint = "put what is replaced into the first nine groups: (?:…) is a group without a number"
        raise UserError("SS3104", "a replacement names one of the first nine groups", hint=hint)
    return "".join(f"\\{part}" if isinstance(part, int) else part.replace("\\", "\\\\") for part in parts)
