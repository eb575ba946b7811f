"""The grammar of `('key' = 'value', …)`: WITH clauses and OPTIONS hints."""

from __future__ import annotations

from sqlglot import TokenType

from sqlstream.errors import UserError
from sqlstream.planner.dialect.reading import Reader
from sqlstream.planner.dialect.statements import Identifier, Option
from sqlstream.planner.dialect.tokens import is_word, span


def option_list(parser: Reader) -> tuple[Option, ...]:
    """Read a list of options in parentheses; a repeated key is an error."""
    parser.expect("(")
    options: dict[str, Option] = {}
    while not parser.at(")") or options:
        option = read_option(parser)
        if option.key in options:
            hint = "keep one of the two"
            raise UserError(
                "SS1001", f'option "{option.key}" is given twice', span=option.key_span, hint=hint
            )
        options[option.key] = option
        if not parser.accept(","):
            break
    parser.expect(")")
    return tuple(options.values())


def read_option(parser: Reader) -> Option:
    """Read `'key' = 'value'`."""
    hint = (
        "quote the key: 'key' = 'value'"
        if is_word(parser.token) or parser.token.token_type is TokenType.IDENTIFIER
        else ""
    )
    key = parser.string("an option key in single quotes", hint)
    parser.expect("=")
    is_bare = is_word(parser.token) or parser.token.token_type is TokenType.NUMBER
    hint = f"quote the value: '{parser.token.text}'" if is_bare else ""
    value = parser.string("an option value in single quotes", hint)
    return Option(key.text, value.text, span(key), span(value))


def option_keys(parser: Reader) -> tuple[Identifier, ...]:
    """Read `('key', …)`."""
    parser.expect("(")
    keys: list[Identifier] = []
    while not keys or parser.accept(","):
        token = parser.string("an option key in single quotes")
        keys.append(Identifier((token.text,), span(token)))
    parser.expect(")")
    return tuple(keys)
