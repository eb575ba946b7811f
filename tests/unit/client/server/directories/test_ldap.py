"""Users of a directory log in with their own passwords, and names are only names. The directory is Debian's slapd."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from ldap_server import BASE, LdapServer, is_installed

from sqlstream.client.server.directories.known_users import NotKnown, Unavailable
from sqlstream.client.server.directories.ldap import Directory, LdapUsers
from sqlstream.errors import UserError

needs_slapd = pytest.mark.skipif(not is_installed(), reason="there is no slapd: apt-get install slapd")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LdapServer]:
    with LdapServer(tmp_path_factory.mktemp("ldap") / "server") as running:
        yield running


def directory_of(server: LdapServer) -> Directory:
    return Directory(
        server.url, f"ou=people,{BASE}", "(uid={user})", f"ou=groups,{BASE}", "(member={dn})", "cn",
        f"cn=reader,{BASE}", "readersecret", str(server.ca_file),
    )  # fmt: skip


@needs_slapd
def test_a_password_lets_in_and_groups_are_those_of_the_entry(server: LdapServer) -> None:
    users = LdapUsers(directory_of(server))
    login = users.login("bob", "bobsecret")
    assert (login.name, set(login.groups)) == ("ldap:bob", {"engineers", "guests"})
    assert users.login("eve", "evesecret").groups == ("guests",)


@needs_slapd
@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("bob", "evesecret"),
        ("bob", ""),
        ("", "bobsecret"),
        ("nobody", "bobsecret"),
        ("*", "bobsecret"),
        ("b*", "bobsecret"),
        ("bob)(uid=*", "bobsecret"),
        ("x)(|(uid=bob", "bobsecret"),
        ("bob\0", "bobsecret"),
        (r"\62ob", "bobsecret"),
        ("bob", "bobsecret\0"),
    ],
)
def test_nothing_but_name_and_password_lets_in(server: LdapServer, user: str, password: str) -> None:
    with pytest.raises(NotKnown):
        LdapUsers(directory_of(server)).login(user, password)


@needs_slapd
def test_a_directory_that_cannot_be_believed_or_asked_lets_nobody_in(
    server: LdapServer, tmp_path: Path
) -> None:
    known = directory_of(server)
    for change in (
        {"bind_password": "wrong"},
        {"ca_file": ""},
        {"url": "ldap://localhost:1"},
        # Its certificate is for another name.
        {"url": known.url.replace("localhost", "127.0.0.1")},
    ):
        with pytest.raises(Unavailable):
            LdapUsers(dataclasses.replace(known, **change)).login("bob", "bobsecret")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://a"}, "no LDAP directory"),
        ({"url": "ldap://directory", "start_tls": False}, "in clear"),
        ({"user_filter": "(uid=bob)"}, "has no {user}"),
        ({"group_filter": "(member=bob)"}, "has no {dn}"),
    ],
)
def test_settings_that_would_tell_passwords_or_mean_nobody_are_refused(
    change: dict[str, object], said: str
) -> None:
    known = Directory("ldaps://d", "ou=p", "(uid={user})", "ou=g", "(member={dn})", "cn")
    with pytest.raises(UserError, match=said):
        dataclasses.replace(known, **change)  # type: ignore[arg-type]
