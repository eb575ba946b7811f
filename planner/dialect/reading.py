"""The base of the grammar: sqlglot's parser, with positions of nodes and errors that name what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.parser import Parser

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect.habits import habit_before, hint_here, is_plausible_name, open_parenthesis
from sqlstream.planner.dialect.nodes import span_of, with_span
from sqlstream.planner.dialect.statements import Identifier, Option
from sqlstream.planner.dialect.tokens import RESERVED, is_word, span, word

Node = TypeVar("Node", bound=exp.Expr)
Result = TypeVar("Result")

_INTEGER_MAX = 2**63 - 1

# sqlglot needs some fifteen Python frames per level.
DEPTH_MAX = 320
NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.ASC, TokenType.DESC})
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN", "WINDOW", "QUALIFY")


class Reader(Parser):
    """Reads the tokens of one statement forward, and raises errors at the current token.

    State: the position in the tokens. Every node that passes through sqlglot's `expression` gets the span of its tokens.
    """

    IDENTIFIER_TOKENS = NAMES
    ID_VAR_TOKENS = set(NAMES)
    ALIAS_TOKENS = set(NAMES)
    TABLE_ALIAS_TOKENS = set(NAMES)

    def open(self, text: str, tokens: list[Token], offset: int = 0) -> None:
        """Begin to read `tokens` of `text`, which begins at `offset` of its script."""
        self.reset()
        self.sql = text
        self._offset = offset
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._advance(0)

    def reset(self) -> None:
        super().reset()
        self._offset = 0
        self._depth = 0
        self._item_depth = -1

    @property
    def token(self) -> Token:
        current = self._curr
        return self._end_token() if current.token_type is TokenType.SENTINEL else current

    def _end_token(self) -> Token:
        end = self._tokens[-1].end if self._tokens else -1
        return Token(TokenType.SENTINEL, "", start=max(end, 0), end=end)

    def peek(self, ahead: int) -> Token:
        index = self._index + ahead
        return self._tokens[index] if 0 <= index < self._tokens_size else self._end_token()

    @property
    def previous_end(self) -> int:
        """The end of the last token that was read."""
        return self._tokens[self._index - 1].end + 1 if self._index else 0

    def advance(self) -> Token:
        """Read one token. UserError SS1001 when there is none."""
        if self.at_end():
            raise self.unexpected()
        token = self.token
        self._advance()
        return token

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or operators."""
        return all(word(self.peek(i)) == expected for i, expected in enumerate(words))

    def at_any(self, *words: str) -> bool:
        return bool(self._curr) and word(self._curr) in words

    def accept(self, *words: str) -> bool:
        """Read these keywords or operators if they come next."""
        if not self.at(*words):
            return False
        self._advance(len(words))
        return True

    def accept_any(self, *words: str) -> str | None:
        """Read one of these words if it comes next, and return it."""
        return word(self.advance()) if self.at_any(*words) else None

    def expect(self, *words: str, hint: str = "") -> Token:
        """Read these keywords or operators, or raise."""
        for expected in words:
            if word(self.token) != expected:
                raise self.unexpected(f'"{expected}"', hint)
            self._advance()
        return self._prev

    def at_end(self) -> bool:
        return not self._curr

    def expect_end(self) -> None:
        if self._curr:
            raise self._foreign() or self._misspelled() or self.unexpected("the end of the statement")

    def _foreign(self) -> UserError | None:
        """The error for a word of another dialect that was read as an alias."""
        found = habit_before(self)
        if found is None:
            return None
        token, hint = found
        return UserError("SS1001", f'unexpected "{token.text}"', span=span(token), hint=hint)

    def _misspelled(self) -> UserError | None:
        """The error for a misspelled clause word, which was read as an alias or is the next token."""
        for token in (self._prev, self._curr):
            if token and token.token_type is TokenType.VAR and self._is_query():
                hint = (
                    "" if token is self._curr and hint_here(self, "") else did_you_mean(token.text, _CLAUSES)
                )
                takes_by = "GROUP" in hint or "ORDER" in hint
                if hint and (token is self._curr or not takes_by or self.at("BY")):
                    return UserError("SS1001", f'unexpected "{token.text}"', span=span(token), hint=hint)
        return None

    def _surplus_hint(self) -> str:
        if self.at_name() and self._is_query():
            return "put a comma between two items, or check the word before"
        return ""

    def _is_query(self) -> bool:
        return word(self._tokens[0]) in ("SELECT", "WITH", "INSERT", "EXPLAIN")

    def unexpected(self, expected: str = "", hint: str = "") -> UserError:
        """SS1001 at the next token, to be raised."""
        token = self.token
        if not token:
            message, place = "unexpected end of statement", Span(token.start, token.end + 1)
        elif token.token_type is TokenType.HINT:
            message, place = "a hint is not allowed here", span(token)
            hint = hint or "write a table hint after the table's name, as in t /*+ OPTIONS('key'='value') */"
        else:
            message, place = f'unexpected "{self.source(token.start, token.end + 1)}"', span(token)
        if expected:
            message += f", expected {expected}"
        hint = hint_here(self, expected) or hint
        before = word(self._prev) if self._prev else ""
        if not hint and before == "," and self._at_end_of_list():
            hint = "remove the comma before it, or write what is missing"
        is_cut_off = not token or self._at_end_of_list()
        if not hint and expected == '")"' and is_cut_off and (opening := open_parenthesis(self)):
            hint = f'the parenthesis of "{opening}" is not closed'
        if not hint and expected == "the end of the statement":
            hint = self._surplus_hint()
        if not hint and word(token) in RESERVED and "name" in expected and is_plausible_name(self):
            hint = f"{word(token)} is a keyword; quote it as `{token.text}` to use it as a name"
        return UserError("SS1001", message, span=place, hint=hint)

    def _at_end_of_list(self) -> bool:
        if not self._curr or self.at(")"):
            return True
        return self.at_any(*_CLAUSES) and (
            self.peek(1).text.upper() == "BY" or not self.at_any("GROUP", "ORDER")
        )

    def refusal(self, message: str, token: Token, hint: str = "") -> UserError:
        """SS1003, to be raised: SQL that is not supported, from `token` to the last token read."""
        place = Span(token.start, max(token.end + 1, self.previous_end))
        return UserError("SS1003", message, span=place, hint=hint)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise an error of sqlglot's own as SS1001, at the token where it arose."""
        place = span(token) if token else span(self.token)
        hint = "complete this part of the statement, or leave it out"
        raise UserError("SS1001", message[:1].lower() + message[1:], span=place, hint=hint)

    def source(self, start: int, end: int) -> str:
        """The text between two positions."""
        return self.sql[start - self._offset : end - self._offset]

    def mark(self, node: Node, start: int) -> Node:
        """`node` with the position from `start` to the last token read."""
        return with_span(node, start, self.previous_end)

    def expression(
        self, instance: Node, token: Token | None = None, comments: list[str] | None = None
    ) -> Node:
        """Finish a node: sqlglot checks it; its span is `token`, or from its first child to the last token read."""
        check_not_given_up()
        node = super().expression(instance, token, comments)
        if "span" in node.meta:
            return node
        if token is not None:
            if isinstance(node, exp.Identifier) and not node.this:
                hint = "write a name between the backticks"
                raise UserError("SS1001", "an identifier cannot be empty", span=span(token), hint=hint)
            return with_span(node, token.start, token.end + 1)
        children = span_of(node)
        return self.mark(node, children.start if children else self._prev.start)

    def enter(self, depth_max: int = DEPTH_MAX) -> None:
        """Count one level of nesting; the bound prevents a hostile text from exhausting Python's stack."""
        self._depth += 1
        if self._depth > depth_max:
            raise nested_too_deeply(self.token)

    def leave(self) -> None:
        self._depth -= 1

    def at_name(self) -> bool:
        return self._curr.token_type in NAMES

    def name(self, what: str = "a name") -> exp.Identifier:
        """Read one identifier."""
        if not self.at_name():
            raise self.unexpected(what)
        token = self.advance()
        node = exp.Identifier(this=token.text, quoted=token.token_type is TokenType.IDENTIFIER)
        return self.expression(node, token)

    def _parse_id_var(self, *_: object, **__: object) -> exp.Identifier:
        return self.name("a column name")

    def simple_name(self, what: str = "a name") -> Identifier:
        """Read one identifier that cannot be qualified."""
        start = self.token.start
        part = self.name(what)
        return Identifier((part.name,), Span(start, self.previous_end))

    def qualified_name(self, what: str = "a name") -> Identifier:
        """Read `[catalog.][database.]object`."""
        start = self.token.start
        parts = [self.name(what).name]
        while self.accept("."):
            parts.append(self.name(what).name)
        place = Span(start, self.previous_end)
        if len(parts) > 3:
            hint = "a name has at most a catalog, a database and an object"
            raise UserError("SS1001", "the name has too many parts", span=place, hint=hint)
        return Identifier(tuple(parts), place)

    def at_string(self) -> bool:
        return self._curr.token_type is TokenType.STRING

    def string(self, what: str = "a string in single quotes", hint: str = "") -> Token:
        if not self.at_string():
            raise self.unexpected(what, hint)
        return self.advance()

    def unsigned_integer(self, what: str = "a whole number", hint: str = "") -> int:
        token = self.token
        if token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            raise self.unexpected(what, hint)
        if int(token.text) > _INTEGER_MAX:
            raise self.refusal(f"a number of {len(token.text)} digits is too large here", token)
        self._advance()
        return int(token.text)

    def _parse_wrapped(self, parse_method: Callable[[], Result], optional: bool = False) -> Result:
        self.expect("(")
        result = parse_method()
        self.expect(")")
        return result

    def _match_l_paren(self, expression: exp.Expr | None = None) -> None:
        self.expect("(")

    def _match_r_paren(self, expression: exp.Expr | None = None) -> None:
        self.expect(")")


def nested_too_deeply(token: Token) -> UserError:
    """SS1001, to be raised, where the bound on nesting is exceeded."""
    hint = "name the inner queries with WITH, or compute inner expressions in a view"
    return UserError("SS1001", "the statement is nested too deeply", span=span(token), hint=hint)


# The grammar of `('key' = 'value', …)`: WITH clauses and OPTIONS hints.


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
