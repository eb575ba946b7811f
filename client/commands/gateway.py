"""`sqlstream gateway`: sessions and plans of SQL here, jobs in a cluster elsewhere."""

from __future__ import annotations

import argparse

from sqlstream.client.arguments import (
    add_configuration_arguments,
    add_serving_arguments,
    configuration_of,
)
from sqlstream.client.commands.taskmanager import (
    TOKEN_VARIABLE,
    add_join_arguments,
    addresses_of_doors,
    token_reader,
)

EPILOG = f"""\
examples:
  sqlstream cluster token > join-token        (where the JobManager runs)
  sqlstream gateway --join head:6124 --token-file join-token
  sqlstream gateway --join head1:6124,head2:6124 --token-file join-token --port 9083

Sessions, catalog and plans are of this process and its data directory; jobs run where the JobManager is, and the rows of queries
come back through the gateway. When another JobManager leads, the gateway joins that one: sessions go on, and the rows of queries
that run are lost. The token is that of --token-file or {TOKEN_VARIABLE}. Beyond this machine clients need a token, as they do for
sqlstream server. SIGTERM and Ctrl-C stop it; jobs of INSERTs go on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_join_arguments(parser, "JobManager")
    add_serving_arguments(parser, "one port for everything", "catalog, sessions, tokens and logs")
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when it was stopped, 1 when it broke off, 2 when the JobManager refuses it or a setting is wrong."""
    from sqlstream.client.clusters.joined_task_manager import Joining
    from sqlstream.client.commands.server import add_settings_of_words, serve_as
    from sqlstream.client.server.gateway_server import GatewayServer

    add_settings_of_words(arguments)
    configuration = configuration_of(arguments)
    addresses, read_token = addresses_of_doors(arguments.join), token_reader(arguments.token_file)
    joining = Joining(addresses, read_token, configuration.for_jobs)
    return serve_as(GatewayServer(configuration, joining), lambda: configuration_of(arguments))
