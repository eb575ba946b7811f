"""A login has the highest role of its groups, is remembered for a while, and who fails too often waits."""

from __future__ import annotations

import base64

import pytest

from sqlstream.client.configuration import load_configuration
from sqlstream.client.server.directories.from_settings import known_users
from sqlstream.client.server.directories.known_users import (
    KnownUsers,
    Login,
    NotKnown,
    Roles,
    TooOften,
    parse_roles,
)
from sqlstream.client.server.roles import Principal, Role
from sqlstream.errors import UserError


class Directory:
    """Knows bob, and counts how often it is asked."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.asked = 0
        self.groups: tuple[str, ...] = ("a", "b", "c")

    def login(self, user: str, password: str) -> Login:
        self.asked += 1
        if (user, password) != ("bob", "x:y"):
            raise NotKnown("no such user")
        return Login("ldap:bob", self.groups)


def users_of(directory: Directory, **more: float) -> KnownUsers:
    groups = {"a": Role.READ_ONLY, "b": Role.OPERATOR, "d": Role.ADMIN}
    roles = Roles(groups, {"ci": Role.OPERATOR}, **more)  # type: ignore[arg-type]
    return KnownUsers(roles, None, directory, lambda: directory.now_s)


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


BOB = basic("bob:x:y")


def test_the_highest_role_of_the_groups_counts_and_is_remembered_for_a_while() -> None:
    directory = Directory()
    users = users_of(directory, kept_s=60)
    assert users.remembered("basic", BOB) is None
    assert users.log_in("basic", BOB, "10.0.0.1") == Principal("ldap:bob", Role.OPERATOR)
    assert users.remembered("basic", BOB) == Principal("ldap:bob", Role.OPERATOR)
    assert users.remembered("bearer", BOB) is None
    directory.now_s += 61
    assert users.remembered("basic", BOB) is None
    directory.groups = ("c",)
    with pytest.raises(NotKnown, match="in no group that has a role"):
        users.log_in("basic", BOB, "10.0.0.1")


def test_who_fails_too_often_waits_and_others_do_not() -> None:
    directory = Directory()
    users = users_of(directory, failures_max=3)
    for text in (basic("bob:z"), basic("bob"), "%%"):
        with pytest.raises(NotKnown):
            users.log_in("basic", text, "10.0.0.1")
    asked = directory.asked
    with pytest.raises(TooOften):
        users.log_in("basic", BOB, "10.0.0.1")
    assert directory.asked == asked
    assert users.log_in("basic", BOB, "10.0.0.2")
    directory.now_s += 61
    assert users.log_in("basic", BOB, "10.0.0.1")


def test_a_certificate_has_the_role_of_its_name() -> None:
    users = users_of(Directory())
    assert users.of_certificate(("x", "ci")) == Principal("cert:ci", Role.OPERATOR)
    assert users.of_certificate(("CI",)) is users.of_certificate(()) is None


@pytest.mark.parametrize("text", ["admin", "=admin", "a=king"])
def test_roles_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_roles("sqlstream.server.users.roles", text)


@pytest.mark.parametrize(
    ("given", "lacking"),
    [
        ({"sqlstream.server.oidc.audience": "a"}, "sqlstream.server.oidc.issuer"),
        ({"sqlstream.server.users.roles": "a=admin"}, "sqlstream.server.ldap.url"),
        ({"sqlstream.server.ldap.users.base": "ou=people"}, "sqlstream.server.ldap.url"),
        (
            {"sqlstream.server.ldap.url": "ldaps://d", "sqlstream.server.ldap.bind-dn": "cn=reader"},
            "sqlstream.server.ldap.bind-password",
        ),
    ],
)
def test_a_setting_that_lets_nobody_in_alone_does_not_leave_a_server_open(
    given: dict[str, str], lacking: str
) -> None:
    with pytest.raises(UserError) as found:
        known_users(load_configuration(None, [f"{key}={value}" for key, value in given.items()]))
    assert found.value.code == "SS4002"
    assert lacking in found.value.message
