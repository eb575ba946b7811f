"""`sqlstream jobmanager`: the JobManager and its REST, for TaskManagers and gateways that join it."""

from __future__ import annotations

import argparse

from sqlstream.client.arguments import (
    add_configuration_arguments,
    add_serving_arguments,
    configuration_of,
)

EPILOG = """\
examples:
  sqlstream jobmanager -D jobmanager.rpc.address=head
  sqlstream jobmanager --port 9081 --data-dir /srv/jobmanager
  sqlstream jobmanager --gateway -D rest.bind-address=0.0.0.0

It is sqlstream server with execution.target=standalone and sqlstream.jobmanager.gateways.enabled=true, and without SQL: that is
taken by sqlstream gateway, of which there may be several, or with --gateway here too. TaskManagers and gateways join at port 6124
with the token that sqlstream cluster token prints.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_serving_arguments(parser, "that of REST and console", "jobs, tokens and logs")
    parser.add_argument("--gateway", action="store_true", help="take SQL, too")
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when it was stopped, 1 when it broke off, 2 for wrong settings."""
    from sqlstream.client.commands.server import add_settings_of_words, serve

    add_settings_of_words(arguments)
    # Before those that were given, which count.
    role = [
        "execution.target=standalone",
        "sqlstream.jobmanager.gateways.enabled=true",
        f"sqlstream.server.gateway.enabled={str(arguments.gateway).lower()}",
    ]
    arguments.settings[:0] = role
    return serve(lambda: configuration_of(arguments))
