"""Why statements that Flink's grammar has are not there, and what to write instead."""

from __future__ import annotations

from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.tokens import word

_MATERIALIZED = (
    "no scheduler refreshes tables",
    "keep a table up to date with a job: CREATE TABLE … AS query, or INSERT INTO table query",
)
_MODEL = (
    "no provider of models is built in",
    "keep the answers of a model in a table, and join it: JOIN t FOR SYSTEM_TIME AS OF …",
)
_CONNECTION = (
    "the options of a table name its connection",
    "write them in WITH (…), or take those of another table: CREATE TABLE … LIKE",
)
_JAR = (
    "connectors, formats and functions are Python modules, and no JVM runs them",
    "SHOW CONNECTORS, SHOW FORMATS and SHOW FUNCTIONS list what there is",
)
_FOREIGN = (
    "Flink SQL has no such statement",
    "write INSERT INTO a table with a primary key, UPDATE or DELETE",
)
_REASONS = {
    "MATERIALIZED": _MATERIALIZED,
    "MODEL": _MODEL,
    "MODELS": _MODEL,
    "CONNECTION": _CONNECTION,
    "CONNECTIONS": _CONNECTION,
    "JAR": _JAR,
    "JARS": _JAR,
    "MERGE": _FOREIGN,
    "UPSERT": _FOREIGN,
}
_WORDS_MAX = 4


def reason_of(parser: QueryParser, begin: tuple[str, ...]) -> tuple[str, str] | None:
    """Why the statement that begins with these words and goes on at the parser's place is refused, and a hint."""
    words = [*begin, *(word(parser.peek(i)) for i in range(_WORDS_MAX - len(begin)))]
    # A name comes behind the word that says of what kind the object is.
    for position, found in enumerate(words[:3]):
        if found in _REASONS and (position == 0 or words[position - 1] not in ("TABLE", "VIEW", "FUNCTION")):
            return _REASONS[found]
    return None
