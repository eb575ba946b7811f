"""Applies one or more rules to a bound query and prints the plan."""

from __future__ import annotations

from planner_harness import Planner

from sqlstream.planner.relational.node import explain_relation
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.planner.rules import Rule, apply_rules


def after(planner: Planner, sql: str, *rules: Rule) -> str:
    """The printed plan, with the names of tables shortened."""
    return printed(apply_rules(planner.bind(sql), rules))


def printed(node: RelationalNode) -> str:
    return explain_relation(node).replace("`default_catalog`.`default_database`.", "")
