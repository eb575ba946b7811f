"""Records are one line, name their task, and show no secret."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.logs import (
    RECORD_CHARACTERS_MAX,
    TaskLabels,
    checked_levels,
    formatter_of,
    install_handler,
    label_thread,
    set_levels,
)


def formatted(log_format: str, message: str, error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, message, (), info)
    record.created, record.threadName = 1.5, "t"
    return formatter_of(log_format, "p").format(record)


def labelled(log_format: str) -> str:
    """A record of a thread that runs a task."""
    found: list[str] = []

    def run() -> None:
        label_thread(TaskLabels("j1", "Source: bids", 2, 0))
        found.append(formatted(log_format, "is RUNNING"))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_text_is_one_line_with_the_labels_of_the_task() -> None:
    assert formatted("TEXT", "up") == "1970-01-01T00:00:01.500Z WARNING p [t] a.b: up"
    wanted = 'WARNING p [t] a.b: is RUNNING job=j1 vertex="Source: bids" subtask=2 attempt=0'
    assert labelled("TEXT").endswith(wanted)


def test_json_has_the_fields_that_have_a_value() -> None:
    said = {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "WARNING",
        "process": "p",
        "thread": "t",
        "logger": "a.b",
    }
    assert json.loads(formatted("JSON", "up")) == {**said, "message": "up"}
    labels = {"job": "j1", "vertex": "Source: bids", "subtask": 2, "attempt": 0}
    assert json.loads(labelled("JSON")) == {**said, "message": "is RUNNING", **labels}


def test_a_message_cannot_look_like_another_record_nor_move_the_cursor() -> None:
    text = formatted("TEXT", "a\n2026-01-01T00:00:00Z INFO forged\x1b[2J")
    assert text.splitlines()[1] == "  2026-01-01T00:00:00Z INFO forged\\x1b[2J"
    assert len(formatted("JSON", "a\nb").splitlines()) == 1


def test_secrets_are_masked_also_in_tracebacks() -> None:
    try:
        raise ValueError("WITH ('api-key' = 'hush')")
    except ValueError as error:
        for log_format in ("TEXT", "JSON"):
            text = formatted(log_format, "SET 'my.password' = 'hush'", error)
            assert "hush" not in text
            assert text.count("******") == 3


def test_a_long_message_keeps_its_end() -> None:
    message = json.loads(formatted("JSON", "x" * 3 * RECORD_CHARACTERS_MAX + "end"))["message"]
    assert (len(message), message[0], message[-3:]) == (RECORD_CHARACTERS_MAX + 1, "…", "end")


def test_levels_are_set_and_taken_away_again_by_logger() -> None:
    root, name = logging.getLogger(), "sqlstream.runtime.a_logger_of_this_test"
    handlers, level = list(root.handlers), root.level
    try:
        install_handler(logging.NullHandler(), "server", "INFO", "TEXT")
        # Libraries that other tests have loaded may have levels of their own.
        others = set_levels({})
        assert set_levels(checked_levels({name: "debug", "httpx": "INFO"})) == {
            **others, "root": "INFO", "httpx": "INFO", name: "DEBUG",
        }  # fmt: skip
        assert logging.getLogger(name).isEnabledFor(logging.DEBUG)
        assert set_levels({"root": "ERROR"})["root"] == "ERROR"
        # Libraries are as quiet again as at the start.
        assert set_levels({name: "", "httpx": "", "root": ""}) == others
        assert logging.getLogger("httpx").level == logging.WARNING
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)


def test_a_library_that_raises_what_it_logs_prints_nothing_where_no_log_is_set_up() -> None:
    program = (
        "import logging\n"
        "from sqlstream.runtime.host.process import hush\n"
        "logging.getLogger('kazoo').setLevel('ERROR')\n"
        "hush('paramiko', 'kazoo')\n"
        "for name in ('paramiko.transport', 'kazoo.client'):\n"
        "    logging.getLogger(name).error('said by ' + name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "said by kazoo.client\n"


def test_libraries_that_log_passwords_below_info_do_not_whatever_the_level_of_the_rest() -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        install_handler(logging.NullHandler(), "server", "DEBUG", "TEXT")
        set_levels(checked_levels({"root": "DEBUG", "kazoo": "INFO"}))
        for name in ("kazoo.client", "botocore.endpoint"):
            assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)
        assert logging.getLogger("kazoo.client").isEnabledFor(logging.INFO)
    finally:
        set_levels({"kazoo": ""})
        for handler in list(root.handlers):
            root.removeHandler(handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)


@pytest.mark.parametrize(
    "levels",
    [
        {"root": "LOUD"},
        {"": "INFO"},
        {"a b": "INFO"},
        {"a\n": "INFO"},
        {"x" * 201: ""},
        {"kazoo.client": "debug"},
    ],
)
def test_what_is_no_logger_or_level_is_refused(levels: dict[str, str]) -> None:
    with pytest.raises(UserError) as refused:
        checked_levels(levels)
    assert refused.value.code == "SS6120"
