"""The settings of Spark: ours, the user's over them, and what is refused."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.batch.spark.settings import (
    is_of_this_machine,
    launch_keys,
    launch_settings,
    properties_text,
    results_address,
    shown_settings,
    spark_keys,
    standalone_masters,
)

GIB = 1 << 30


def test_only_keys_of_spark_are_taken() -> None:
    config = {"parallelism.default": "2", "spark.master": "local[1]", "spark.sql.shuffle.partitions": "3"}
    given = spark_keys(config)
    assert given == {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "3"}
    assert launch_keys(given) == {"spark.master": "local[1]"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.sql.ansi.enabled", "true"), ("spark.sql.session.timeZone", "Europe/Berlin")],
)
def test_what_the_generated_sql_relies_on_cannot_be_changed(key: str, value: str) -> None:
    with pytest.raises(UserError) as caught:
        spark_keys({key: value})
    assert caught.value.code == "SS4052"
    assert f'option "{key}" cannot be "{value}"' in caught.value.message
    assert caught.value.hint == f"RESET '{key}'"


@pytest.mark.parametrize(
    "key", ["spark.sql.legacy.castComplexTypesToString.enabled", "spark.sql.ansi.doubleQuotedIdentifiers"]
)
def test_what_could_change_the_rows_is_refused_with_any_value(key: str) -> None:
    with pytest.raises(UserError, match=f'option "{key}" cannot be set') as caught:
        spark_keys({key: "false"})
    assert caught.value.code == "SS4052"


def test_giving_the_needed_value_is_no_fault() -> None:
    assert spark_keys({"spark.sql.ansi.enabled": "FALSE"}) == {"spark.sql.ansi.enabled": "FALSE"}


@pytest.mark.parametrize(
    "config",
    [
        {"spark.master": "mesos://x:1"},
        {"spark.master": "spark://"},
        {"spark.master": "spark://host"},
        {"spark.master": "spark://host:99999"},
        {"spark.submit.deployMode": "cluster"},
    ],
)
def test_masters_that_cannot_be_used_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(UserError) as caught:
        spark_keys(config)
    assert caught.value.code == "SS4053"


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://127.0.0.1:7077,10.0.0.7:7077", False),
        ("spark://node7:7077", False),
        ("yarn", False),
        ("k8s://https://cluster:6443", False),
    ],
)
def test_a_spark_of_this_machine_is_told_by_its_master(master: str, is_here: bool) -> None:
    assert is_of_this_machine(master) is is_here


def test_masters_of_a_standalone_cluster() -> None:
    assert standalone_masters("spark://a:1,b:2") == [("a", 1), ("b", 2)]


def test_rows_are_listened_for_where_the_driver_listens_and_sent_where_it_is_reached() -> None:
    cluster = {"spark.driver.host": "driver.example"}
    assert results_address(cluster) == (("driver.example", 0), "driver.example")
    behind = {**cluster, "spark.driver.bindAddress": "0.0.0.0", "spark.sqlstream.results.port": "7001"}
    assert results_address(behind) == (("0.0.0.0", 7001), "driver.example")


@pytest.mark.parametrize("port", ["x", "-1", "65536", "", "7001.0"])
def test_a_wrong_port_for_results_is_the_user_s_fault(port: str) -> None:
    with pytest.raises(UserError) as caught:
        spark_keys({"spark.sqlstream.results.port": port})
    assert caught.value.code == "SS4002"


def test_by_default_spark_is_local_closed_and_within_the_cores() -> None:
    settings = launch_settings({}, "/tmp/x", "/tmp/x/sockets", 3, 24 * GIB)
    assert settings["spark.master"] == "local[3]"
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "127.0.0.1"
    assert settings["spark.authenticate"] == "true"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.driver.memory"] == "6144m"
    assert settings["spark.sql.shuffle.partitions"] == "12"
    assert settings["spark.local.dir"] == "/tmp/x/local"
    assert settings["spark.sql.warehouse.dir"] == "file:/tmp/x/warehouse"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.sql.timestampType"] == "TIMESTAMP_NTZ"


@pytest.mark.parametrize(("memory", "heap"), [(2 * GIB, "1024m"), (8 * GIB, "2048m"), (512 * GIB, "8192m")])
def test_spark_takes_a_share_of_the_memory(memory: int, heap: str) -> None:
    assert launch_settings({}, "/tmp/x", "/tmp/x/sockets", 2, memory)["spark.driver.memory"] == heap


def test_a_cluster_decides_about_its_own_addresses_and_secrets() -> None:
    settings = launch_settings(
        {"spark.master": "spark://node7:7077"}, "/tmp/x", "/tmp/x/sockets", 2, 24 * GIB
    )
    for key in ("spark.driver.bindAddress", "spark.driver.host", "spark.authenticate", "spark.local.dir"):
        assert key not in settings


def test_a_secret_is_used_without_a_switch() -> None:
    given = {"spark.master": "spark://127.0.0.1:7077", "spark.authenticate.secret": "s"}
    assert launch_settings(given, "/tmp/x", "/tmp/x/sockets", 2, 24 * GIB)["spark.authenticate"] == "true"
    off = {**given, "spark.authenticate": "false"}
    assert launch_settings(off, "/tmp/x", "/tmp/x/sockets", 2, 24 * GIB)["spark.authenticate"] == "false"


def test_the_user_s_settings_win_but_for_those_that_the_sql_needs() -> None:
    given = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dx=1"}
    settings = launch_settings(given, "/tmp/x", "/tmp/x/sockets", 2, 24 * GIB)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:/tmp/x/")
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dx=1")


def test_spark_meets_its_workers_on_unix_sockets() -> None:
    settings = launch_settings({}, "/tmp/x", "/tmp/y", 2, GIB)
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert settings["spark.python.unix.domain.socket.dir"] == "/tmp/y"


def test_secrets_are_masked_in_the_log() -> None:
    assert (
        shown_settings({"spark.master": "yarn", "spark.authenticate.secret": "abc"})
        == "spark.authenticate.secret=******, spark.master=yarn"
    )


def test_a_properties_file_holds_any_text() -> None:
    assert properties_text({"spark.a": "x y\\z\n#!é😀"}) == (
        "spark.a=x\\ y\\\\z\\n\\#\\!\\u00e9\\ud83d\\ude00\n"
    )
