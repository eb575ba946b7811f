"""`sqlstream.yaml`: where it is looked for, and its settings with the lines that they stand in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlstream.errors import UserError

if TYPE_CHECKING:
    from yaml import Node

FILE_NAME = "sqlstream.yaml"
FILE_VARIABLE = "SQLSTREAM_CONFIG"
DIRECTORY_VARIABLE = "SQLSTREAM_CONF_DIR"

FILE_BYTES_MAX = 1024 * 1024
DEPTH_MAX = 20
SETTINGS_MAX = 10_000
"""Bounds of a file: aliases could make one of a few lines endless."""


class FileSetting(NamedTuple):
    """One setting of a file; `line` counts from 1."""

    key: str
    value: str
    line: int


def find_config_file(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The file that is in force: the given one, that of $SQLSTREAM_CONFIG, sqlstream.yaml in $SQLSTREAM_CONF_DIR, in the
    present directory, in $XDG_CONFIG_HOME/sqlstream. Only the first is read; None when there is none.

    One that was named must exist, and one that only lies in the present directory must belong to this user or to root:
    UserError SS4008."""
    named = given or environment.get(FILE_VARIABLE)
    if named:
        return named
    directory = environment.get(DIRECTORY_VARIABLE)
    if directory:
        return os.path.join(directory, FILE_NAME)
    if os.path.isfile(FILE_NAME):
        _check_owner(FILE_NAME)
        return FILE_NAME
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    path = os.path.join(home, "sqlstream", FILE_NAME)
    return path if os.path.isfile(path) else None


def _check_owner(path: str) -> None:
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
        raise UserError(
            "SS4008",
            f'"{path}" in the present directory is not read, as another user can have written it',
            hint=f"start with --config {path} if it is to be used",
        )


def read_config_file(path: str) -> tuple[FileSetting, ...]:
    """The settings of a file of flat (`rest.port: 8081`) or nested keys; a list is joined by `;` as Flink does.
    UserError SS4008 with the line when it cannot be read, is no YAML or says a key twice."""
    import yaml

    try:
        root = yaml.compose(_text_of(path), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise _wrong(path, line, f"no YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise _wrong(path, 1, f"no YAML: {error}") from error
    except RecursionError as error:
        raise _wrong(path, 1, "it is nested too deeply") from error
    found: dict[str, FileSetting] = {}
    if root is None:
        return ()
    for setting in _settings(path, root, "", 0):
        if setting.key in found:
            raise _wrong(path, setting.line, f'"{setting.key}" is in line {found[setting.key].line} already')
        if len(found) >= SETTINGS_MAX:
            raise _wrong(path, setting.line, f"more than {SETTINGS_MAX} settings")
        found[setting.key] = setting
    return tuple(found.values())


def _text_of(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise UserError("SS4008", f'could not read "{path}": it has more than {FILE_BYTES_MAX} bytes')
        return data.decode("utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS4008", f'could not read "{path}": {reason}', hint=f"give the path of a {FILE_NAME}"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError("SS4008", f'"{Path(path)}" is not UTF-8 text', hint="convert it to UTF-8") from error


def _settings(path: str, node: Node, prefix: str, depth: int) -> Iterator[FileSetting]:
    from yaml import MappingNode, ScalarNode

    line = node.start_mark.line + 1
    if not isinstance(node, MappingNode):
        if not prefix:
            raise _wrong(path, line, "settings are written as key: value")
        yield FileSetting(prefix, _value(path, node, prefix), line)
        return
    if depth > DEPTH_MAX:
        raise _wrong(path, line, "it is nested too deeply")
    for key, value in node.value:
        if not isinstance(key, ScalarNode) or not key.value:
            raise _wrong(path, key.start_mark.line + 1, "a key is no text")
        name = f"{prefix}.{key.value}" if prefix else key.value
        if isinstance(value, MappingNode):
            yield from _settings(path, value, name, depth + 1)
        else:
            # The line of the key: an empty value stands on the next one.
            yield FileSetting(name, _value(path, value, name), key.start_mark.line + 1)


def _value(path: str, node: Node, key: str) -> str:
    from yaml import ScalarNode, SequenceNode

    line = node.start_mark.line + 1
    if isinstance(node, SequenceNode):
        return ";".join(_value(path, item, key) for item in node.value)
    if not isinstance(node, ScalarNode):
        raise _wrong(path, line, f'the list of "{key}" holds more than plain values')
    if node.tag == "tag:yaml.org,2002:null":
        raise _wrong(path, line, f'"{key}" has no value')
    return str(node.value)


def _wrong(path: str, line: int, problem: str) -> UserError:
    return UserError("SS4008", f'"{path}" line {line}: {problem}', hint="write lines such as rest.port: 8081")
