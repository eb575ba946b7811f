"""The grammar of `('key' = 'value', …)`: WITH clauses and OPTIONS hints."""

from __future__ import annotations

from planner.dialect.statements import Option
from planner.dialect.tokens import Cursor, TokenKind
from sqlstream.errors import UserError


def option_list(cursor: Cursor) -> tuple[Option, ...]:
    """Read a list of options in parentheses; a key that comes twice is an error."""
    cursor.expect("(")
    options: dict[str, Option] = {}
    while not cursor.at(")") or options:
        option = read_option(cursor)
        if option.key in options:
            hint = "keep one of the two"
            raise UserError(
                "SS1001", f'option "{option.key}" is given twice', span=option.key_span, hint=hint
            )
        options[option.key] = option
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(options.values())


def read_option(cursor: Cursor) -> Option:
    """Read `'key' = 'value'`."""
    hint = "quote the key: 'key' = 'value'" if cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED) else ""
    key = cursor.string("an option key in single quotes", hint)
    cursor.expect("=")
    is_bare = cursor.token.kind in (TokenKind.WORD, TokenKind.NUMBER)
    hint = f"quote the value: '{cursor.token.text}'" if is_bare else ""
    value = cursor.string("an option value in single quotes", hint)
    return Option(key.text, value.text, key.span, value.span)
