"""What may follow the beginning of a statement: its grammar, the definitions of CREATE TABLE and its options."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import Token, TokenType

from sqlstream.client.completion.candidates import Name, OptionName, Vocabulary
from sqlstream.client.completion.cursor import is_name
from sqlstream.client.completion.phrases import Expected, Phrase, expected_after, parse_phrase
from sqlstream.client.completion.tree import Group, Item, place_in_tree, word_of
from sqlstream.client.completion.wanted import TYPES, Wanted, wanted_at, wanted_in_expression
from sqlstream.planner.dialect.tokens import word

_ELEMENTS = ("WATERMARK FOR", "PRIMARY KEY", "CONSTRAINT")
_AFTER_TYPE = ("NOT NULL", "PRIMARY KEY NOT ENFORCED", "METADATA", "COMMENT")


def defined_columns(tokens: Sequence[Token]) -> list[Name]:
    """The columns of `name TYPE …, …`, with the first word of their type."""
    found = []
    group = place_in_tree(tokens, ()).group
    while group.parent is not None:
        group = group.parent
    for element in _elements(group.items):
        first, second = (*element, None, None)[:2]
        if (
            isinstance(first, Token)
            and is_name(first)
            and isinstance(second, Token)
            and not _is_constraint(element)
        ):
            found.append(Name(first.text, second.text.upper() if second.text.upper() in TYPES else ""))
    return found


def wanted_in_definitions(tokens: Sequence[Token]) -> Wanted:
    """What may follow `tokens`, which begin after the opening bracket."""
    place = place_in_tree(tokens, ())
    if place.group.parent is not None:
        return wanted_at(place) if place.group.opener != "KEY" else Wanted(is_operand=True)
    element = _elements(place.before, keeps_empty=True)[-1]
    words = [word_of(i) for i in element]
    if not element:
        return Wanted(_ELEMENTS)
    if _is_constraint(element):
        return _in_constraint(element, words)
    if len(element) == 1:
        return Wanted(("AS", "METADATA"), has_types=True)
    if words[1] == "AS":
        return _after_as(element)
    if words[-1] == "NOT":
        return Wanted(("NULL", "ENFORCED"))
    if words[-1] == "METADATA":
        return Wanted(("FROM", "VIRTUAL"))
    if words[-1] == "PRIMARY":
        return Wanted(("KEY NOT ENFORCED",))
    if "METADATA" in words:
        return Wanted(("VIRTUAL", "COMMENT"))
    return Wanted(tuple(k for k in _AFTER_TYPE if k.split()[0] not in words))


def _in_constraint(element: Sequence[Item], words: Sequence[str]) -> Wanted:
    if words[0] == "WATERMARK":
        if len(words) == 1:
            return Wanted(("FOR",))
        if words[-1] == "FOR":
            return Wanted(is_operand=True)
        return Wanted(("AS",)) if "AS" not in words else _after_as(element)
    if words[-1] == "PRIMARY":
        return Wanted(("KEY",))
    if words[0] == "CONSTRAINT" and len(words) == 2:
        return Wanted(("PRIMARY KEY",))
    if isinstance(element[-1], Group):
        return Wanted(("NOT ENFORCED",))
    return Wanted(("ENFORCED",) if words[-1] == "NOT" else ())


def _after_as(element: Sequence[Item]) -> Wanted:
    start = next(i for i, item in enumerate(element) if word_of(item) == "AS") + 1
    return wanted_in_expression(element[start:], ())


def _is_constraint(element: Sequence[Item]) -> bool:
    words = [word_of(i) for i in element[:2]]
    return (
        words[0] == "CONSTRAINT"
        or words in (["WATERMARK", "FOR"], ["PRIMARY", "KEY"])
        or (len(element) == 1 and words[0] in ("WATERMARK", "PRIMARY"))
    )


def _elements(items: Sequence[Item], keeps_empty: bool = False) -> list[Sequence[Item]]:
    """The parts between commas; brackets of types are groups, so their commas do not count."""
    found: list[Sequence[Item]] = []
    start = 0
    for i in range(len(items) + 1):
        if i == len(items) or word_of(items[i]) == ",":
            if i > start or keeps_empty:
                found.append(items[start:i])
            start = i + 1
    return found


# The grammar of all statements but queries, as phrases, and what may follow a beginning of one.


_DETAILS = "(ESTIMATED_COST | CHANGELOG_MODE | JSON_EXECUTION_PLAN | PLAN_ADVICE)"

PHRASES = (
    "<query>",
    "INSERT (INTO | OVERWRITE) <table> [PARTITION <columns>] [<columns>] <query>",
    "UPDATE <table> [AS <new_name>] SET <assignments>",
    "DELETE FROM <table> [AS <new_name>] [WHERE <condition>]",
    "TRUNCATE TABLE <table>",
    "EXECUTE (STATEMENT SET BEGIN | PLAN <file> | <statement>)",
    "COMPILE [AND EXECUTE] PLAN <file> [IF NOT EXISTS] FOR <statement>",
    "BEGIN STATEMENT SET",
    "EXPLAIN PLAN FOR <file>",
    "EXPLAIN WHY [NOT] <query>",
    f"EXPLAIN [STATE | ANALYZE | PLAN FOR | {_DETAILS} {{, {_DETAILS}}}] <statement>",
    "CREATE [TEMPORARY] TABLE [IF NOT EXISTS] <new_name> <definitions> [COMMENT <text>] [PARTITIONED BY <columns>]"
    " WITH <options>",
    "CREATE [TEMPORARY] TABLE [IF NOT EXISTS] <new_name> [<definitions>] [COMMENT <text>] LIKE <file> [WITH <options>]",
    "CREATE [TEMPORARY] VIEW [IF NOT EXISTS] <new_name> [<columns>] [COMMENT <text>] AS <query>",
    "CREATE DATABASE [IF NOT EXISTS] <new_name> [COMMENT <text>] [WITH <database_options>]",
    "CREATE CATALOG [IF NOT EXISTS] <new_name> [COMMENT <text>] WITH <catalog_options>",
    "DROP [TEMPORARY] (TABLE [IF EXISTS] <table> | VIEW [IF EXISTS] <view>)",
    "CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS] <new_name> AS <text> LANGUAGE PYTHON [USING FILE <text>]",
    "ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] <user_function> AS <text> LANGUAGE PYTHON [USING FILE <text>]",
    "DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] <user_function>",
    "CREATE [TEMPORARY] MODEL [IF NOT EXISTS] <new_name> INPUT <model_columns> OUTPUT <model_columns> [COMMENT <text>]"
    " WITH <model_options>",
    "CREATE [TEMPORARY] MODEL [IF NOT EXISTS] <new_name> [COMMENT <text>] WITH <model_options> AS <query>",
    "ALTER MODEL [IF EXISTS] <model> (RENAME TO <new_name> | SET <model_options> | RESET <model_options>)",
    "DROP [TEMPORARY] MODEL [IF EXISTS] <model>",
    "SHOW MODELS [(FROM | IN) <database>] [[NOT] (LIKE | ILIKE) <text>]",
    "DROP DATABASE [IF EXISTS] <database> [RESTRICT | CASCADE]",
    "DROP CATALOG [IF EXISTS] <catalog>",
    "ALTER CATALOG <catalog> (SET <catalog_options> | RESET <catalog_options> | COMMENT <text>)",
    "ALTER DATABASE <database> SET <database_options>",
    "USE (<database> | CATALOG <catalog>)",
    "SET [<setting> = <value>]",
    "RESET [<setting>]",
    "SHOW (TABLES | VIEWS) [(FROM | IN) <database>] [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW COLUMNS (FROM | IN) <relation> [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW DATABASES [(FROM | IN) <catalog>] [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW [USER] FUNCTIONS [(FROM | IN) <database>] [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW (CATALOGS | CONNECTORS | FORMATS) [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW CURRENT (CATALOG | DATABASE)",
    "SHOW CREATE (TABLE <table> | VIEW <view> | CATALOG <catalog> | FUNCTION <user_function> | MODEL <model>)",
    "SHOW JOBS",
    "SHOW [FULL] MODULES",
    "SHOW PROCEDURES [(FROM | IN) <database>] [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW PARTITIONS <table> [PARTITION <columns>] [[NOT] (LIKE | ILIKE) <text>]",
    "USE MODULES <new_name>",
    "CALL <procedure>",
    "ANALYZE TABLE <table> COMPUTE STATISTICS [FOR (COLUMNS <new_name> | ALL COLUMNS)]",
    "SHOW CHECKPOINTS [FOR JOB <job>]",
    "SHOW LEDGER [FOR JOB <job>]",
    "(DESCRIBE | DESC) [EXTENDED] <relation>",
    "(DESCRIBE | DESC) (CONNECTOR <connector> | FORMAT <format> | FUNCTION [EXTENDED] <function> | JOB <job>)",
    "(DESCRIBE | DESC) MODEL <model>",
    "(DESCRIBE | DESC) (CATALOG [EXTENDED] <catalog> | DATABASE [EXTENDED] <database>)",
    "STOP JOB <job> [WITH SAVEPOINT [WITH DRAIN]]",
    "DIAGNOSE JOB <job>",
    "EXPLAIN STATE FOR JOB <job>",
    "EXPLAIN UPGRADE FOR (JOB <job> | SAVEPOINT <file>) AS <statement>",
    "CANARY JOB <job> [WITH <assignments>] AS <statement>",
    "VERIFY <statement> [USING (DUCKDB | SPARK)]",
    "VERIFY JOB <job> [USING (DUCKDB | SPARK)]",
)

PHRASES_OF_SET = ("INSERT (INTO | OVERWRITE) <table> [PARTITION <columns>] [<columns>] <query>", "END")
"""What a statement set holds."""


@functools.cache
def _parsed(is_in_set: bool) -> tuple[Phrase, ...]:
    return tuple(map(parse_phrase, PHRASES_OF_SET if is_in_set else PHRASES))


def expected_in_statement(tokens: Sequence[Token], is_in_set: bool = False) -> Expected:
    """The keywords and slots that may follow `tokens`, the beginning of a statement."""
    expected: Expected = set()
    for phrase in _parsed(is_in_set):
        expected |= expected_after(phrase, tokens)
    return expected


# What may stand in `('key' = 'value', …)`: WITH, OPTIONS hints, and the pairs of SET.


@dataclasses.dataclass(frozen=True)
class OptionPlace:
    """The cursor in a list of pairs: `key` is None where a key is wanted, else the key whose value is wanted; `symbols` are
    wanted in place of either. `given` holds the pairs before it."""

    given: dict[str, str]
    key: str | None = None
    symbols: tuple[str, ...] = ()


def option_place(tokens: Sequence[Token]) -> OptionPlace:
    """The place after `tokens`, which begin after the opening bracket."""
    start = max((i + 1 for i, t in enumerate(tokens) if t.token_type is TokenType.COMMA), default=0)
    given = option_pairs(tokens[:start])
    pair = tokens[start:]
    if not pair:
        return OptionPlace(given)
    if len(pair) == 1:
        return OptionPlace(given, symbols=("=",))
    return OptionPlace(given, key=pair[0].text) if len(pair) == 2 else OptionPlace(given, symbols=(",", ")"))


def option_pairs(tokens: Sequence[Token]) -> dict[str, str]:
    """All complete pairs among the tokens."""
    strings = TokenType.STRING
    return {
        tokens[i].text: tokens[i + 2].text
        for i in range(len(tokens) - 2)
        if tokens[i].token_type is strings
        and word(tokens[i + 1]) == "="
        and tokens[i + 2].token_type is strings
    }


def option_keys(
    options: Iterable[OptionName], given: Iterable[str], columns: Sequence[str]
) -> list[OptionName]:
    """The keys that are not given yet; `#` stands for each column."""
    known = set(given)
    found = []
    for option in options:
        names = [option.key.replace("#", c) for c in columns] if "#" in option.key else [option.key]
        found += [OptionName(name, option.detail, option.choices) for name in names if name not in known]
    return found


def model_options(given: Mapping[str, str]) -> list[OptionName]:
    """The keys of WITH of a model, beside options that may name the provider."""
    from sqlstream.models import PROVIDERS

    named = PROVIDERS.get(given.get("provider", ""))
    found = [OptionName("provider", "what computes the model", tuple(PROVIDERS))]
    for provider in PROVIDERS.values() if named is None else (named,):
        found += [
            OptionName(o.key, o.description, ("true", "false") if o.type.name == "BOOLEAN" else o.choices)
            for o in provider.options
            if not o.key.endswith("*")
        ]
    return list({option.key: option for option in found}.values())


def option_choices(
    key: str, options: Iterable[OptionName], columns: Sequence[str], vocabulary: Vocabulary
) -> Sequence[str]:
    """The values that the key may have, where they can be listed."""
    if key == "connector":
        return vocabulary.connectors()
    found = [o for o in option_keys(options, (), columns) if o.key == key]
    return found[0].choices if found else ()
