"""The settings of Spark under which TaskManagers run in its tasks."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.runtime.providers.providers import is_on_one_host
from sqlstream.runtime.providers.spark.provider import driver_settings

SEVERAL_HOSTS = {"spark.master": "yarn", "jobmanager.rpc.address": "head"}


def test_executors_have_one_task_and_come_as_they_are_needed() -> None:
    found = driver_settings({"spark.master": "spark://127.0.0.1:7077", "parallelism.default": "2"})
    assert found["spark.executor.cores"] == "1"
    assert found["spark.dynamicAllocation.enabled"] == "true"
    assert found["spark.task.maxFailures"] == "1"
    assert "spark.network.crypto.enabled" not in found
    assert "parallelism.default" not in found


def test_the_users_settings_win() -> None:
    found = driver_settings({"spark.master": "local[2]", "spark.executor.memory": "3g", "spark.x": "y"})
    assert (found["spark.executor.memory"], found["spark.x"]) == ("3g", "y")


def test_a_fixed_number_of_executors_turns_dynamic_allocation_off() -> None:
    config = {"spark.master": "local[2]", "spark.executor.instances": "4"}
    assert driver_settings(config)["spark.dynamicAllocation.enabled"] == "false"
    both = {**config, "spark.dynamicAllocation.enabled": "true"}
    assert driver_settings(both)["spark.dynamicAllocation.enabled"] == "true"


def test_the_connections_of_spark_are_encrypted_between_hosts() -> None:
    found = driver_settings(SEVERAL_HOSTS)
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")
    assert found["spark.driver.host"] == "head"


def test_a_cluster_on_this_machine_that_has_a_secret_is_met_with_it() -> None:
    config = {"spark.master": "spark://localhost:7077", "spark.authenticate.secret": "s"}
    switches = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert driver_settings(config).items() >= switches.items()
    plain = {**config, "spark.network.crypto.enabled": "false"}
    assert driver_settings(plain)["spark.network.crypto.enabled"] == "false"
    assert not driver_settings({"spark.master": "spark://localhost:7077"}).keys() & switches.keys()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, 'option "spark.master" is not set'),
        ({"spark.master": "yarn"}, 'option "jobmanager.rpc.address" is not set'),
        (
            {**SEVERAL_HOSTS, "spark.network.crypto.enabled": "false"},
            '"spark.network.crypto.enabled" cannot be',
        ),
        ({**SEVERAL_HOSTS, "spark.authenticate": "false"}, '"spark.authenticate" cannot be "false"'),
        ({**SEVERAL_HOSTS, "spark.master": "spark://h:7077"}, '"spark.authenticate.secret" is not set'),
        (
            {"spark.master": "local[2]", "spark.task.maxFailures": "4"},
            '"spark.task.maxFailures" cannot be "4"',
        ),
        ({"spark.master": "local[2]", "spark.speculation": "true"}, '"spark.speculation" cannot be "true"'),
    ],
)
def test_what_task_managers_cannot_run_under_is_refused(config: dict[str, str], reason: str) -> None:
    with pytest.raises(UserError, match=reason) as error:
        driver_settings(config)
    assert error.value.code == "SS4072"


def test_a_connect_server_keeps_its_own_settings() -> None:
    here = {"spark.remote": "sc://localhost:7/;token=t", "execution.target": "spark"}
    assert driver_settings(here) == {"spark.remote": "sc://localhost:7/;token=t"}
    with pytest.raises(UserError) as caught:
        driver_settings({**here, "spark.executor.memory": "1g"})
    assert caught.value.code == "SS4058"


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"spark.remote": "sc://node7/;use_ssl=true"}, "give the name under which they reach this one"),
        (
            {"spark.remote": "sc://node7/;use_ssl=false", "jobmanager.rpc.address": "head"},
            "add ;use_ssl=true to the address",
        ),
    ],
)
def test_what_a_connect_server_on_another_host_needs(config: dict[str, str], hint: str) -> None:
    with pytest.raises(UserError) as caught:
        driver_settings(config)
    assert caught.value.code == "SS4072"
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("config", "is_here"),
    [
        ({"spark.remote": "sc://localhost"}, True),
        ({"spark.remote": "sc://localhost", "jobmanager.rpc.address": "127.0.0.1"}, True),
        ({"spark.remote": "sc://localhost", "jobmanager.rpc.address": "head"}, False),
        ({"spark.remote": "sc://node7/;use_ssl=true"}, False),
        ({"spark.master": "local[2]"}, True),
        ({"spark.master": "yarn"}, False),
    ],
)
def test_task_managers_see_the_files_of_this_host_where_all_processes_are_on_it(
    config: dict[str, str], is_here: bool
) -> None:
    assert is_on_one_host({"execution.target": "spark", **config}) is is_here
    assert is_on_one_host(config)
