"""What may stand at a place of a query: names, or keywords in the order in which a menu shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlstream.client.completion.scope import CLAUSES, SET_OPERATORS, clause_word, select_around
from sqlstream.client.completion.tree import Group, Item, Place, ends_operand, word_of
from sqlstream.planner.dialect.tokens import TABLE_FUNCTIONS

TYPES = (
    *("STRING", "INT", "BIGINT", "BOOLEAN", "DOUBLE", "DECIMAL", "FLOAT", "TINYINT", "SMALLINT"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "CHAR", "VARCHAR", "BINARY", "VARBINARY", "BYTES"),
    *("ARRAY", "MAP", "MULTISET", "ROW", "INTERVAL", "VARIANT", "BITMAP"),
)
UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "MILLISECOND")

_SET_OPERATORS = ("UNION ALL", "UNION", "INTERSECT", "EXCEPT")
_TAIL = ("ORDER BY", "LIMIT", *_SET_OPERATORS)
_FOLLOWING: dict[str, tuple[str, ...]] = {
    "SELECT": ("FROM", "AS"),
    "WHERE": ("GROUP BY", "HAVING", "QUALIFY", *_TAIL),
    "GROUP": ("HAVING", "QUALIFY", *_TAIL),
    "HAVING": ("QUALIFY", *_TAIL),
    "QUALIFY": _TAIL,
    "ORDER": ("ASC", "DESC", "NULLS FIRST", "NULLS LAST", "LIMIT", "OFFSET"),
    "LIMIT": ("OFFSET", *_SET_OPERATORS),
    "VALUES": (*_SET_OPERATORS,),
}
"""Keywords that may follow a complete expression, by clause."""

_BEHIND_STAR = ("EXCEPT", "EXCLUDE", "REPLACE", "RENAME")
_OPERATORS = ("AND", "OR", "IS NULL", "IS NOT NULL", "IN", "NOT IN", "BETWEEN", "LIKE", "ILIKE", "SIMILAR TO")
_AFTER_SOURCE = (
    *("WHERE", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "INNER JOIN", "CROSS JOIN", "GROUP BY"),
    *("AS", "HAVING", "QUALIFY", *_TAIL, "FOR SYSTEM_TIME AS OF", "PIVOT", "UNPIVOT", "MATCH_RECOGNIZE"),
)
_OPERANDS = ("CASE", "CAST", "NOT", "EXISTS", "NULL", "TRUE", "FALSE", "INTERVAL", "ARRAY", "MAP", "ROW")

_SECOND_WORDS: dict[str, tuple[str, ...]] = {
    "GROUP": ("BY",),
    "ORDER": ("BY",),
    "PARTITION": ("BY",),
    "LEFT": ("JOIN", "OUTER JOIN"),
    "RIGHT": ("JOIN", "OUTER JOIN"),
    "FULL": ("JOIN", "OUTER JOIN"),
    "OUTER": ("JOIN",),
    "INNER": ("JOIN",),
    "CROSS": ("JOIN",),
    "IS": ("NULL", "NOT NULL", "TRUE", "FALSE", "DISTINCT FROM", "NOT DISTINCT FROM"),
    "NULLS": ("FIRST", "LAST"),
    "SIMILAR": ("TO",),
    "WITHIN": ("GROUP",),
    "SYSTEM_TIME": ("AS OF",),
    "UNION": ("ALL", "SELECT", "BY NAME"),
    "EXCEPT": ("SELECT", "ALL"),
    "INTERSECT": ("SELECT", "ALL"),
    "MINUS": ("SELECT", "ALL"),
    "LIMIT": ("ALL",),
}
"""Keywords that must follow one, wherever it stands."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Kinds of names, and keywords. `is_operand`: columns, names of sources and functions. `time_of`: the group of a window
    function, whose table's columns are wanted."""

    keywords: tuple[str, ...] = ()
    is_operand: bool = False
    is_table: bool = False
    has_types: bool = False
    has_units: bool = False
    time_of: Group | None = None


def wanted_at(place: Place) -> Wanted:
    """What may follow the items before the cursor."""
    before = place.before
    previous = before[-1] if before else None
    if place.group.parent is not None and not place.group.is_query:
        return _in_brackets(place.group, before, previous)
    if second := _SECOND_WORDS.get(word_of(previous)):
        return Wanted(second)
    select = select_around(before, len(before))
    if not select:
        return Wanted(("SELECT", "VALUES") if before else ("SELECT", "WITH", "VALUES"))
    clause, start = _clause(select)
    return _in_clause(clause, select[start:])


def _clause(items: Sequence[Item]) -> tuple[str, int]:
    """The clause at the end of the items, and where its content begins."""
    for index in range(len(items) - 1, -1, -1):
        if found := clause_word(items, index):
            return found, index + 1
    return "WITH", 1


def _in_clause(clause: str, items: Sequence[Item]) -> Wanted:
    """`items` is the content of the clause before the cursor."""
    last = items[-1] if items else None
    if word_of(last) == "BY" and len(items) == 1:
        return Wanted(
            ("ALL", "ROLLUP", "CUBE", "GROUPING SETS") if clause == "GROUP" else (), is_operand=True
        )
    match clause:
        case "WITH":
            return _in_with(items)
        case "FROM":
            return _in_from(items)
        case "LIMIT" | "OFFSET" | "FETCH" | "WINDOW":
            return Wanted(_FOLLOWING["LIMIT"] if items and clause == "LIMIT" else ())
        case "SELECT" if not items:
            return Wanted(("DISTINCT", *_OPERANDS), is_operand=True)
        case "SELECT" if word_of(last) == "*" and _is_complete(items):
            return Wanted((*_FOLLOWING["SELECT"], *_BEHIND_STAR))
    return wanted_in_expression(items, _FOLLOWING.get(clause, ()))


def _in_with(items: Sequence[Item]) -> Wanted:
    last = items[-1] if items else None
    if last is None:
        return Wanted(("RECURSIVE", "MUTUALLY RECURSIVE"))
    if isinstance(last, Group) and len(items) > 1 and word_of(items[-2]) == "AS":
        return Wanted(("SELECT",))
    words = [word_of(item) for item in items]
    if words == ["MUTUALLY"]:
        return Wanted(("RECURSIVE",))
    if words in (["RECURSIVE"], ["MUTUALLY", "RECURSIVE"]):
        return Wanted()
    return Wanted(("AS",)) if ends_operand(last) else Wanted()


def _in_from(items: Sequence[Item]) -> Wanted:
    """After FROM: sources, and conditions of joins after ON."""
    join = next((i for i in range(len(items) - 1, -1, -1) if word_of(items[i]) in ("JOIN", ",", "ON")), None)
    if join is not None and word_of(items[join]) == "ON":
        rest = items[join + 1 :]
        return wanted_in_expression(rest, _AFTER_SOURCE[:8] + _TAIL)
    start = 0 if join is None else join + 1
    rest = items[start:]
    if not rest or word_of(rest[-1]) in ("TABLE", "LATERAL"):
        keywords = ("TABLE", "LATERAL", *TABLE_FUNCTIONS) if not rest else TABLE_FUNCTIONS
        return Wanted(keywords, is_table=not rest)
    if not ends_operand(rest[-1]):
        return Wanted()
    is_join = join is not None and word_of(items[join]) == "JOIN"
    return Wanted(("ON", "USING", "AS")) if is_join else Wanted(_AFTER_SOURCE)


def wanted_in_expression(items: Sequence[Item], following: tuple[str, ...]) -> Wanted:
    """What may follow the beginning of an expression; `following` are the keywords that may follow a complete one."""
    last = items[-1] if items else None
    if last is None or not _is_complete(items):
        cases = ("WHEN",) if word_of(last) == "CASE" else ()
        return Wanted((*cases, *_OPERANDS), is_operand=True)
    words = [word_of(i) for i in items]
    if _is_interval(items):
        return Wanted(has_units=True)
    if words.count("CASE") > words.count("END"):
        return Wanted(("WHEN", "THEN", "ELSE", "END", *_OPERATORS))
    after_call = ("OVER", "FILTER") if isinstance(last, Group) and last.opener else ()
    return Wanted((*after_call, *following, *_OPERATORS))


def _is_complete(items: Sequence[Item]) -> bool:
    """Whether an expression may end here. A star is a column unless an operand precedes it."""
    last = items[-1]
    if word_of(last) == "*":
        return len(items) < 2 or not ends_operand(items[-2])
    return ends_operand(last)


def _is_interval(items: Sequence[Item]) -> bool:
    return len(items) > 1 and word_of(items[-2]) == "INTERVAL"


def _in_brackets(group: Group, before: Sequence[Item], previous: Item | None) -> Wanted:
    """Within the brackets of a call, of OVER, or around an expression."""
    opener = group.opener
    if opener == "DESCRIPTOR":
        return Wanted(time_of=group.parent)
    if opener in TABLE_FUNCTIONS or opener == "TABLE":
        return _in_window_function(opener, before, previous)
    if opener == "OVER":
        return _in_over(before, previous)
    if opener in ("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF") and previous is None:
        return Wanted(has_units=True)
    if opener in ("CAST", "TRY_CAST"):
        if word_of(previous) == "AS":
            return Wanted(has_types=True)
        return wanted_in_expression(before, ("AS",))
    if opener in ("PIVOT", "UNPIVOT"):
        return _in_pivot(opener, before, previous)
    if opener in ("USING", "AS", *_BEHIND_STAR[:2]) or _is_unpivoted(group):
        return Wanted(is_operand=previous is None or word_of(previous) == ",")
    if second := _SECOND_WORDS.get(word_of(previous)):
        return Wanted(second)
    start = max((i + 1 for i, item in enumerate(before) if word_of(item) == ","), default=0)
    wanted = wanted_in_expression(before[start:], ())
    if previous is None:
        is_subquery = not opener or opener in ("IN", "EXISTS", "ANY", "ALL", "FROM", "JOIN", ",")
        first = ("SELECT",) if is_subquery or opener in CLAUSES | SET_OPERATORS else ("DISTINCT",)
        return dataclasses.replace(wanted, keywords=(*first, *wanted.keywords))
    return wanted


def _is_unpivoted(group: Group) -> bool:
    """Whether these are the columns of an UNPIVOT."""
    return group.opener == "IN" and group.parent is not None and group.parent.opener == "UNPIVOT"


def _in_pivot(opener: str, before: Sequence[Item], previous: Item | None) -> Wanted:
    """`aggregate [AS name], … FOR column IN (…)` of a PIVOT, or `value FOR name IN (…)` of an UNPIVOT, whose names are new."""
    words = [word_of(i) for i in before]
    is_pivot = opener == "PIVOT"
    if "FOR" in words:
        is_named = words[-1] != "FOR"
        return Wanted(("IN",) if is_named and "IN" not in words else (), is_operand=is_pivot and not is_named)
    if is_pivot:
        last = before[max((i + 1 for i, w in enumerate(words) if w == ","), default=0) :]
        return wanted_in_expression(last, ("FOR", "AS"))
    return Wanted(("FOR",) if previous is not None else ())


def _in_window_function(opener: str, before: Sequence[Item], previous: Item | None) -> Wanted:
    if word_of(previous) == "TABLE":
        return Wanted(is_table=True)
    if opener == "TABLE":
        return Wanted(TABLE_FUNCTIONS) if previous is None else Wanted()
    if opener == "VECTOR_SEARCH":
        is_operand = word_of(previous) == ","
        return Wanted(("TABLE",) if previous is None else ("DESCRIPTOR",), is_operand=is_operand)
    if opener in ("ML_PREDICT", "ML_EVALUATE"):
        return Wanted(
            ("TABLE",) if previous is None else ("MODEL", "DESCRIPTOR") if word_of(previous) == "," else ()
        )
    if previous is None or word_of(previous) == "=>":
        return Wanted(("TABLE", "DATA =>") if previous is None else ("TABLE", "DESCRIPTOR", "INTERVAL"))
    if word_of(previous) == ",":
        return Wanted(("DESCRIPTOR", "INTERVAL", "TIMECOL =>", "SIZE =>", "SLIDE =>", "STEP =>", "OFFSET =>"))
    if _is_interval(before):
        return Wanted(has_units=True)
    return Wanted(("PARTITION BY",)) if opener == "SESSION" else Wanted()


def _in_over(before: Sequence[Item], previous: Item | None) -> Wanted:
    last_word = word_of(previous)
    if second := _SECOND_WORDS.get(last_word):
        return Wanted(second)
    words = [word_of(i) for i in before]
    if "ROWS" in words or "RANGE" in words:
        return Wanted(("BETWEEN", "UNBOUNDED PRECEDING", "PRECEDING", "AND", "CURRENT ROW", "INTERVAL"))
    if last_word in ("BY", ","):
        return Wanted(is_operand=True)
    if "ORDER" in words:
        return Wanted(("ASC", "DESC", "ROWS BETWEEN", "RANGE BETWEEN"))
    return Wanted(("ORDER BY",) if "PARTITION" in words else ("PARTITION BY", "ORDER BY"))
