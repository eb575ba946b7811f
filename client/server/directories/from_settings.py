"""The users that the settings of a server name."""

from __future__ import annotations

import time

from sqlstream.client.configuration import Configuration
from sqlstream.client.server.directories.known_users import KnownUsers, Roles, parse_roles
from sqlstream.client.server.directories.ldap import Directory, LdapUsers
from sqlstream.client.server.directories.oidc import Issuer, OidcUsers
from sqlstream.errors import UserError


def names_users(configuration: Configuration) -> bool:
    """Whether others than tokens are known: then nobody is let in unasked, on loopback neither."""
    return bool(
        configuration.get("sqlstream.server.oidc.issuer")
        or configuration.get("sqlstream.server.ldap.url")
        or configuration.get("sqlstream.server.certificates.roles")
    )


def known_users(configuration: Configuration) -> KnownUsers | None:
    """UserError SS4002 for settings that do not go together, SS6150 when a package is missing."""
    _require_what_they_are_for(configuration)
    if not names_users(configuration):
        return None
    groups = parse_roles("sqlstream.server.users.roles", configuration.get("sqlstream.server.users.roles"))
    certificates = configuration.get("sqlstream.server.certificates.roles")
    roles = Roles(
        groups,
        parse_roles("sqlstream.server.certificates.roles", certificates),
        configuration.get("sqlstream.server.users.cache-time") / 1000,
        configuration.get("sqlstream.server.users.failures.max-num"),
    )
    if certificates and not configuration.get("security.ssl.rest.ca-file"):
        raise _lacking("security.ssl.rest.ca-file", "sqlstream.server.certificates.roles")
    issuer, directory = _issuer(configuration), _directory(configuration)
    if (issuer or directory) and not groups:
        raise _lacking("sqlstream.server.users.roles", "an issuer or a directory")
    return KnownUsers(
        roles,
        OidcUsers(issuer, time.time) if issuer is not None else None,
        LdapUsers(directory) if directory is not None else None,
        time.time,
    )


_FOR_AN_ISSUER = ("sqlstream.server.oidc.audience",)
_FOR_A_DIRECTORY = (
    "sqlstream.server.ldap.users.base",
    "sqlstream.server.ldap.groups.base",
    "sqlstream.server.ldap.bind-dn",
    "sqlstream.server.ldap.bind-password",
    "sqlstream.server.ldap.ca-file",
)


def _require_what_they_are_for(configuration: Configuration) -> None:
    """A setting alone that means nobody would leave a server open that its user holds for guarded. UserError SS4002."""
    for keys, what in (
        (_FOR_AN_ISSUER, "sqlstream.server.oidc.issuer"),
        (_FOR_A_DIRECTORY, "sqlstream.server.ldap.url"),
    ):
        given = next((key for key in keys if configuration.get(key)), "")
        if given and not configuration.get(what):
            raise _lacking(what, given)
    if configuration.get("sqlstream.server.users.roles") and not (
        configuration.get("sqlstream.server.oidc.issuer") or configuration.get("sqlstream.server.ldap.url")
    ):
        raise _lacking(
            "sqlstream.server.oidc.issuer or sqlstream.server.ldap.url", "sqlstream.server.users.roles"
        )
    if configuration.get("sqlstream.server.ldap.bind-dn") and not configuration.get(
        "sqlstream.server.ldap.bind-password"
    ):
        raise _lacking("sqlstream.server.ldap.bind-password", "sqlstream.server.ldap.bind-dn")


def _issuer(configuration: Configuration) -> Issuer | None:
    url = configuration.get("sqlstream.server.oidc.issuer")
    audience = configuration.get("sqlstream.server.oidc.audience")
    if not url:
        return None
    if not audience:
        raise _lacking("sqlstream.server.oidc.audience", "sqlstream.server.oidc.issuer")
    return Issuer(
        url,
        audience,
        configuration.get("sqlstream.server.oidc.user-claim"),
        configuration.get("sqlstream.server.oidc.groups-claim"),
    )


def _directory(configuration: Configuration) -> Directory | None:
    url = configuration.get("sqlstream.server.ldap.url")
    if not url:
        return None
    users, groups = (
        configuration.get("sqlstream.server.ldap.users.base"),
        configuration.get("sqlstream.server.ldap.groups.base"),
    )
    for key, base in (
        ("sqlstream.server.ldap.users.base", users),
        ("sqlstream.server.ldap.groups.base", groups),
    ):
        if not base:
            raise _lacking(key, "sqlstream.server.ldap.url")
    return Directory(
        url,
        users,
        configuration.get("sqlstream.server.ldap.users.filter"),
        groups,
        configuration.get("sqlstream.server.ldap.groups.filter"),
        configuration.get("sqlstream.server.ldap.groups.attribute"),
        configuration.get("sqlstream.server.ldap.bind-dn"),
        configuration.get("sqlstream.server.ldap.bind-password"),
        configuration.get("sqlstream.server.ldap.ca-file"),
        configuration.get("sqlstream.server.ldap.start-tls"),
    )


def _lacking(key: str, what: str) -> UserError:
    return UserError(
        "SS4002", f'option "{key}" is not set, which {what} needs', hint="docs/secure.md has examples"
    )
