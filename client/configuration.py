"""The settings that a command starts with, and where each comes from: default, sqlstream.yaml, environment, command line."""

from __future__ import annotations

import dataclasses
import enum
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlstream import config
from sqlstream.config_option import Scope
from sqlstream.errors import UserError, did_you_mean
from sqlstream.options.flink_keys import flink_keys
from sqlstream.options.network_options import network_note

if TYPE_CHECKING:
    from yaml import Node


# `sqlstream.yaml`: where it is looked for, and its settings with the lines that they stand in.


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
            raise UserError(
                "SS4008",
                f'could not read "{path}": it has more than {FILE_BYTES_MAX} bytes',
                hint=f"give the path of a {FILE_NAME}",
            )
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


VARIABLE_PREFIX = "SQLSTREAM_"

_OTHER_NAMES = ("KERNEL_CACHE", "URL", "TOKEN", "JOIN", "JOIN_TOKEN")
OTHER_VARIABLES = frozenset(
    {FILE_VARIABLE, DIRECTORY_VARIABLE, *(f"{VARIABLE_PREFIX}{n}" for n in _OTHER_NAMES)}
)
"""Variables with our prefix that stand for no option."""


class Origin(enum.Enum):
    """Where a value comes from; a later one is stronger."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A value in force. `place` is the line of the file, the variable or the word of the command line; empty for a default."""

    key: str
    value: str
    origin: Origin
    place: str


class Configuration:
    """All options with the value in force. Immutable.

    `values` holds what was given, and not defaults, so that it can be passed on; `notes` says what had no effect."""

    def __init__(self, given: Mapping[str, Setting], notes: tuple[str, ...] = ()) -> None:
        self._given = dict(given)
        self.notes = notes

    @property
    def values(self) -> dict[str, str]:
        return {key: setting.value for key, setting in self._given.items()}

    def of_scopes(self, *scopes: Scope) -> dict[str, str]:
        """What was given for options of these scopes."""
        return {k: v for k, v in self.values.items() if config.option(k).scope in scopes}

    @property
    def for_jobs(self) -> dict[str, str]:
        """What was given for everything but the server: the settings that a cluster and its sessions start with."""
        return self.of_scopes(*(s for s in Scope if s is not Scope.SERVER))

    @property
    def for_target(self) -> dict[str, str]:
        """The settings that a command's session starts with, and where to find a server. Those of a cluster are left out where
        it is a server's, which reads the same file, unless they are on the command line."""
        found = self.for_jobs
        if self.get("execution.target") == "remote":
            found = {key: value for key, value in found.items() if self._is_for_remote(key)}
        if self.is_given("sqlstream.data-dir"):
            found["sqlstream.data-dir"] = self.values["sqlstream.data-dir"]
        return found

    def _is_for_remote(self, key: str) -> bool:
        if config.option(key).scope is not Scope.CLUSTER or key == "execution.target":
            return True
        return self._given[key].origin is Origin.COMMAND_LINE

    def is_given(self, key: str) -> bool:
        return key in self._given

    def get(self, key: str) -> Any:
        """The parsed value of an option."""
        return config.get(self.values, key)

    def setting(self, key: str) -> Setting:
        """The value of an option and where it comes from. UserError SS4001 for an unknown option."""
        default = config.option(key).default
        return self._given.get(key) or Setting(key, default, Origin.DEFAULT, "")


def load_configuration(
    file: str | None = None, words: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Configuration:
    """Read all places; `file` is that of --config, `words` are the `key=value` of -D and --set.

    UserError that names the place: SS4001 for an unknown option, SS4002 for a wrong value, SS4008 for a wrong file."""
    variables = os.environ if environment is None else environment
    path = find_config_file(file, variables)
    given: dict[str, Setting] = {}
    notes: dict[str, str] = {}
    for setting in (*_of_file(path), *_of_environment(variables), *_of_words(words)):
        settled = _settled(setting)
        given[settled.key] = dataclasses.replace(setting, key=settled.key)
        notes[setting.key] = settled.note
    network = network_note({key: setting.value for key, setting in given.items()})
    told = [note for note in (*notes.values(), network and f"note: {network}") if note]
    return Configuration(given, (*unknown_variables(variables), *told))


def settings_of_words(words: Sequence[str]) -> dict[str, str]:
    """`key=value` words alone, for a command that no file and no variable may change. UserError SS4001 for another word."""
    return {setting.key: setting.value for setting in _of_words(words)}


def variable_of(key: str) -> str:
    """The environment variable of an option.

    >>> variable_of("rest.bind-port"), variable_of("sqlstream.log.level")
    ('SQLSTREAM_REST_BIND_PORT', 'SQLSTREAM_LOG_LEVEL')
    """
    name = key.removeprefix("sqlstream.")
    return VARIABLE_PREFIX + name.replace(".", "_").replace("-", "_").upper()


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """A note for each variable with our prefix that stands for nothing. It is no error: others make such names too
    (Kubernetes does for a service called sqlstream)."""
    variables = _variables(environment)
    for name in sorted(_ours(environment)):
        if name not in variables:
            hint = did_you_mean(name, list(variables))
            yield f"note: the environment variable {name} is no option{f': {hint}' if hint else ''}"


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The option of each variable; empty where the environment has none with our prefix, as in most starts."""
    if not any(_ours(environment)):
        return {}
    return {variable_of(key): key for key in (*config.OPTIONS, *flink_keys().tuning)}


def _ours(environment: Mapping[str, str]) -> Iterator[str]:
    return (n for n in environment if n.startswith(VARIABLE_PREFIX) and n not in OTHER_VARIABLES)


def _of_file(path: str | None) -> Iterator[Setting]:
    if path is None:
        return
    for key, value, line in read_config_file(path):
        yield Setting(key, value, Origin.FILE, f"{path}:{line}")


def _of_environment(environment: Mapping[str, str]) -> Iterator[Setting]:
    for name, key in _variables(environment).items():
        if name in environment:
            yield Setting(key, environment[name], Origin.ENVIRONMENT, name)


def _of_words(words: Sequence[str]) -> Iterator[Setting]:
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            raise UserError("SS4001", f'"{word}" is no setting', hint="write -D KEY=VALUE")
        yield Setting(key.strip(), value.strip(), Origin.COMMAND_LINE, f"-D {key.strip()}")


def _settled(setting: Setting) -> config.Settled:
    try:
        return config.settle(setting.key, setting.value, at_start=True)
    except UserError as error:
        if setting.origin is Origin.COMMAND_LINE:
            raise
        place, _, line = setting.place.rpartition(":")
        where = f'"{place}" line {line}' if place else setting.place
        raise UserError(error.code, f"{where}: {error.message}", hint=error.hint) from error
