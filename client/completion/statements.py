"""The grammar of all statements but queries, as phrases, and what may follow a beginning of one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sqlglot import Token

from sqlstream.client.completion.phrases import Expected, Phrase, expected_after, parse_phrase

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
    "SHOW CREATE (TABLE <table> | VIEW <view> | CATALOG <catalog> | FUNCTION <user_function>)",
    "SHOW JOBS",
    "SHOW [FULL] MODULES",
    "SHOW PROCEDURES [(FROM | IN) <database>] [[NOT] (LIKE | ILIKE) <text>]",
    "SHOW PARTITIONS <table> [PARTITION <columns>] [[NOT] (LIKE | ILIKE) <text>]",
    "USE MODULES <new_name>",
    "CALL <procedure>",
    "ANALYZE TABLE <table> COMPUTE STATISTICS [FOR (COLUMNS <new_name> | ALL COLUMNS)]",
    "SHOW CHECKPOINTS [FOR JOB <job>]",
    "(DESCRIBE | DESC) [EXTENDED] <relation>",
    "(DESCRIBE | DESC) (CONNECTOR <connector> | FORMAT <format> | FUNCTION [EXTENDED] <function> | JOB <job>)",
    "(DESCRIBE | DESC) (CATALOG [EXTENDED] <catalog> | DATABASE [EXTENDED] <database>)",
    "STOP JOB <job> [WITH SAVEPOINT [WITH DRAIN]]",
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
