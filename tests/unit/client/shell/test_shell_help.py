"""HELP: its examples are statements, and it leaves no command out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.client.shell.commands import COMMAND_NAMES
from sqlstream.client.shell.help_topics import COMMANDS, TOPICS, help_text
from sqlstream.planner.dialect.parser import parse_script

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize("topic", [name for name, topic in TOPICS.items() if topic.example])
def test_examples_are_statements(topic: str) -> None:
    assert list(parse_script(TOPICS[topic].example))


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_every_command_is_explained_by_help_and_in_the_documentation(name: str) -> None:
    word = re.compile(rf"(?<![\w\\]){re.escape(name)}(?!\w)")
    assert any(word.search(f"{form} {about}") for form, about in COMMANDS)
    assert word.search((ROOT / "docs" / "shell.md").read_text().replace("`", " "))


def test_the_overview_points_to_codes_functions_connectors_and_settings() -> None:
    for way in (
        "HELP SS2003",
        "explain-error",
        "DESCRIBE FUNCTION",
        "DESCRIBE CONNECTOR",
        "sqlstream config",
    ):
        assert way in help_text()


def test_a_topic_may_be_written_in_part_and_in_lower_case() -> None:
    assert help_text("create v").startswith("Gives a query a name.")
    assert 'there is no help on "slect"; did you mean "SELECT"?' in help_text("slect")
