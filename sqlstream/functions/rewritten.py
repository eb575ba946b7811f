"""Functions that are written as other expressions before a plan is made, with their SQL forms."""

from __future__ import annotations

REWRITTEN_AGGREGATES = {
    "APPROX_COUNT_DISTINCT": "APPROX_COUNT_DISTINCT(value)",
    "JSON_ARRAYAGG": "JSON_ARRAYAGG(value [{NULL | ABSENT} ON NULL])",
    "JSON_OBJECTAGG": "JSON_OBJECTAGG([KEY] key VALUE value [{NULL | ABSENT} ON NULL])",
}
"""Aggregates that the parser writes as others: JSON's as functions of an ARRAY_AGG, the approximate count as the exact one."""

REWRITTEN_SCALARS = {
    "OBJECT_OF": "OBJECT_OF(class_name[, key, value]*)",
    "OBJECT_UPDATE": "OBJECT_UPDATE(object, key, value[, key, value]*)",
}
"""Functions that the binder writes as a ROW."""

REWRITTEN = REWRITTEN_SCALARS | REWRITTEN_AGGREGATES
