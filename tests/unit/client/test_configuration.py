"""Settings come from four places, the strongest wins, and a wrong one is refused with its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sqlstream.client.commands.config import chosen_keys, describe
from sqlstream.client.configuration import (
    Configuration,
    find_config_file,
    load_configuration,
    read_config_file,
    settings_of_words,
    variable_of,
)
from sqlstream.client.main import main
from sqlstream.config import OPTIONS
from sqlstream.config_option import Scope
from sqlstream.errors import UserError
from sqlstream.options.flink_keys import flink_keys


@pytest.fixture(autouse=True)
def _empty_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file and no variable of the machine that the tests run on."""
    for name in [n for n in os.environ if n.startswith("SQLSTREAM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def error_of(path: Path, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load_configuration(write(path, text), (), {})
    return caught.value


def test_each_place_is_stronger_than_the_one_before(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "rest.port: 1\nparallelism.default: 2\npipeline.name: file\n")
    variables = {"SQLSTREAM_REST_PORT": "3", "SQLSTREAM_PARALLELISM_DEFAULT": "4"}
    found = load_configuration(file, ["rest.port=5"], variables)
    assert [
        (s.value, s.origin.value, s.place)
        for s in map(
            found.setting, ("rest.port", "parallelism.default", "pipeline.name", "heartbeat.interval")
        )
    ] == [
        ("5", "command line", "-D rest.port"),
        ("4", "environment", "SQLSTREAM_PARALLELISM_DEFAULT"),
        ("file", "file", f"{file}:3"),
        ("10 s", "default", ""),
    ]
    assert (found.get("rest.port"), found.is_given("heartbeat.interval")) == (5, False)


def test_what_jobs_start_with_has_no_setting_of_the_server() -> None:
    found = load_configuration(None, ["rest.port=5", "heartbeat.timeout=9 s", "pipeline.name=n"], {})
    assert found.for_jobs == {"heartbeat.timeout": "9 s", "pipeline.name": "n"}
    assert found.of_scopes(Scope.SERVER) == {"rest.port": "5"}


def test_a_remote_target_leaves_out_what_is_the_servers_unless_the_command_line_says_it(
    tmp_path: Path,
) -> None:
    text = "execution.target: remote\nheartbeat.timeout: 9 s\nrest.port: 1\npipeline.name: n\nsqlstream.data-dir: /d\n"
    file = write(tmp_path / "c.yaml", text)
    remote = {"execution.target": "remote", "pipeline.name": "n", "sqlstream.data-dir": "/d"}
    assert load_configuration(file, [], {}).for_target == remote
    # It is refused where the session starts.
    said = load_configuration(file, ["heartbeat.timeout=8 s"], {})
    assert said.for_target == {**remote, "heartbeat.timeout": "8 s"}
    local = load_configuration(file, ["execution.target=local"], {})
    assert local.for_target == {**remote, "execution.target": "local", "heartbeat.timeout": "9 s"}


def test_every_option_has_a_variable_of_its_own() -> None:
    keys = [*OPTIONS, *flink_keys().tuning]
    assert len({variable_of(key) for key in keys}) == len(keys)
    assert variable_of("taskmanager.numberOfTaskSlots") == "SQLSTREAM_TASKMANAGER_NUMBEROFTASKSLOTS"


def test_flat_and_nested_keys_and_lists_are_read_with_their_lines(tmp_path: Path) -> None:
    text = "# ours\nrest:\n  port: 0x10\n  bind:\n    x: yes\na.b: '1'\nlist:\n  - /a\n  - /b\nempty: ''\n"
    assert read_config_file(write(tmp_path / "c.yaml", text)) == (
        ("rest.port", "0x10", 3),
        ("rest.bind.x", "yes", 5),
        ("a.b", "1", 6),
        ("list", "/a;/b", 7),
        ("empty", "", 10),
    )
    assert read_config_file(write(tmp_path / "c.yaml", "# nothing\n")) == ()


@pytest.mark.parametrize(
    ("text", "code", "words", "hint"),
    [
        ("\nrest.prt: 1\n", "SS4001", 'line 2: unknown option "rest.prt"', 'did you mean "rest.port"?'),
        ("rest.port: high\n", "SS4002", 'line 1: option "rest.port" takes an integer, not "high"', "whole number"),
        ("rest.port: 70000\n", "SS4002", 'line 1: option "rest.port" must be at most 65535', ""),
        ("rest.port: 1\nrest:\n  port: 2\n", "SS4008", 'line 3: "rest.port" is in line 1 already', "rest.port: 8081"),
        ("rest.port:\n", "SS4008", 'line 1: "rest.port" has no value', ""),
        ("rest.port: [1, {a: 2}]\n", "SS4008", 'list of "rest.port" holds more than plain values', ""),
        ("a: 'b\n", "SS4008", "line 2: no YAML: found unexpected end of stream", ""),
        ("- a\n", "SS4008", "line 1: settings are written as key: value", ""),
        ("[a]: b\n", "SS4008", "line 1: a key is no text", ""),
        ("a: &x {b: *x}\n", "SS4008", "", ""),
        ("security.ssl.rest.key-password: [{a: hush}]\n", "SS4008", "", ""),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, text: str, code: str, words: str, hint: str
) -> None:
    error = error_of(tmp_path / "c.yaml", text)
    assert (error.code, words in error.message, hint in error.hint) == (code, True, True), error
    assert str(tmp_path / "c.yaml") in error.message
    assert "hush" not in error.message + error.hint


def test_a_file_of_aliases_does_not_grow_without_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}" for i in range(1, 9)]
    error = error_of(tmp_path / "c.yaml", "\n".join(lines))
    assert "more than 10000 settings" in error.message


def test_a_wrong_variable_and_a_wrong_word_are_named() -> None:
    with pytest.raises(UserError, match=r'SQLSTREAM_REST_PORT: option "rest.port" takes an integer'):
        load_configuration(None, (), {"SQLSTREAM_REST_PORT": "x"})
    with pytest.raises(UserError, match=r'"rest.port" is no setting$'):
        load_configuration(None, ["rest.port"], {})
    assert settings_of_words(["a=b=c", " d = e "]) == {"a": "b=c", "d": "e"}


def test_variables_that_stand_for_nothing_are_noted_and_not_refused() -> None:
    variables = {"SQLSTREAM_REST_PRT": "1", "SQLSTREAM_URL": "http://h", "SQLSTREAM_REST_PORT": "1"}
    assert load_configuration(None, (), variables).notes == (
        'note: the environment variable SQLSTREAM_REST_PRT is no option: did you mean "SQLSTREAM_REST_PORT"?',
    )


def test_addresses_for_a_spark_cluster_are_noted_where_jobs_stay_on_this_machine(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", "jobmanager.rpc.address: head\nspark.master: spark://head:7077\n")
    words = ["taskmanager.host=worker", "jobmanager.rpc.port=0"]
    assert load_configuration(path, words, {}).notes == (
        "note: 'jobmanager.rpc.address', 'taskmanager.host' have no effect: processes of one machine meet on Unix sockets"
        " ('execution.target' is 'local')",
    )
    assert load_configuration(path, [*words, "execution.target=spark"], {}).notes == ()
    assert load_configuration(path, [*words, "execution.target=remote"], {}).notes == ()


def test_the_file_is_looked_for_where_users_expect_it(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    assert find_config_file(None, home) is None
    in_home = write(tmp_path / "home" / "sqlstream" / "sqlstream.yaml", "")
    assert find_config_file(None, home) == in_home
    write(tmp_path / "sqlstream.yaml", "")
    assert find_config_file(None, home) == "sqlstream.yaml"
    assert find_config_file(None, {**home, "SQLSTREAM_CONF_DIR": "/etc/s"}) == "/etc/s/sqlstream.yaml"
    variables = {**home, "SQLSTREAM_CONF_DIR": "/etc/s", "SQLSTREAM_CONFIG": "/etc/t.yaml"}
    assert find_config_file(None, variables) == "/etc/t.yaml"
    assert find_config_file("given.yaml", variables) == "given.yaml"


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"could not read .*none.yaml.*no such file"):
        load_configuration(str(tmp_path / "none.yaml"), (), {})


def test_a_file_that_others_can_write_is_not_read_only_because_it_lies_here(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "sqlstream.yaml", "rest.port: 1\n"))
    path.chmod(0o666)
    with pytest.raises(UserError, match="another user can have written it") as caught:
        load_configuration(None, (), {})
    assert caught.value.hint == "start with --config sqlstream.yaml if it is to be used"
    assert load_configuration("sqlstream.yaml", (), {}).get("rest.port") == 1


def test_the_command_shows_value_default_origin_and_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", "-D", "rest.port=9", "rest.port", "heartbeat"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [r["key"] for r in rows] == ["rest.port", "heartbeat.interval", "heartbeat.timeout"]
    wanted = {"value": "9", "default": "8081", "origin": "command line", "scope": "SERVER", "type": "Integer"}
    assert {k: rows[0][k] for k in wanted} == wanted
    assert main(["config", "rest.port"]) == 0
    assert "| rest.port | 8081  | 8081    | default | SERVER |" in capsys.readouterr().out


def test_the_command_masks_secrets_and_refuses_an_option_that_is_not_there() -> None:
    configuration = load_configuration(None, ["security.ssl.rest.key-password=hush"], {})
    assert describe(configuration, "security.ssl.rest.key-password")["value"] == "******"
    assert describe(Configuration({}), "security.ssl.rest.key-password")["value"] == ""
    with pytest.raises(UserError, match=r'unknown option "rest.prt"') as caught:
        chosen_keys(["rest.prt"], list(OPTIONS))
    assert caught.value.hint == 'did you mean "rest.port"?'
