"""Every command with its words and options, as its parser knows them."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlstream.client.main import COMMANDS, _parser

GOLDEN = Path(__file__).parent / "commands.out"


def word(action: argparse.Action) -> str:
    kind = type(action).__name__.strip("_").removesuffix("Action")
    facts = [
        "/".join(action.option_strings) or action.dest,
        f"as {action.dest}",
        kind,
        *([f"nargs {action.nargs!r}"] if action.nargs is not None else []),
        *([f"const {action.const!r}"] if action.const is not None else []),
        *([f"default {action.default!r}"] if action.default is not None else []),
        *([f"type {getattr(action.type, '__name__', action.type)}"] if action.type is not None else []),
        *([f"choices {list(action.choices)}"] if action.choices is not None else []),
        *(["required"] if action.required else []),
    ]
    return ", ".join(facts)


def printed(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    groups = {id(a): g for g in parser._mutually_exclusive_groups for a in g._group_actions}
    yield name
    for action in parser._actions:
        group = groups.get(id(action))
        beside = "" if group is None else ", one of a group" + (" that is required" if group.required else "")
        yield f"  {word(action)}{beside}"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, inner in action.choices.items():
                yield from printed(f"{name} {below}", inner)


def test_commands_take_the_words_in_their_golden_file(golden: Callable[[Path, str], None]) -> None:
    lines: list[str] = []
    for name, (module, _) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=name, add_help=False)
        importlib.import_module(module).add_arguments(parser)
        lines += printed(name, parser)
    golden(GOLDEN, "\n".join(lines))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)


def test_the_help_of_every_command_and_action_has_an_example_of_it() -> None:
    without, seen = [], 0
    for name in COMMANDS:
        for parser in _parsers(_parser([name])):
            if parser.prog.split()[:2] == ["sqlstream", name]:
                seen += 1
                _, _, examples = parser.format_help().partition("\nexamples:\n")
                if f"  {parser.prog}" not in examples and f"; {parser.prog}" not in examples:
                    without.append(parser.prog)
    assert seen > len(COMMANDS)
    assert without == []
