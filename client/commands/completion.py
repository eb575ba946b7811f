"""`sqlstream completion SHELL`: the script that makes a shell complete the words of this command."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

ASKED_VARIABLE = "_ARGCOMPLETE"
"""Set by the shell's script when it asks for words."""

LINE_VARIABLE = "COMP_LINE"


def is_asked(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is to answer with words, and to do nothing else."""
    return ASKED_VARIABLE in environment


def words_of_line(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The words behind the command's name that the user has written so far."""
    return environment.get(LINE_VARIABLE, "").split()[1:]


def answer_words(parser: argparse.ArgumentParser) -> None:
    """Write the words to where the shell's script reads them, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser)


def job_ids(parsed_args: argparse.Namespace, **ignored: Any) -> dict[str, str]:
    """The ids of the server's jobs, each with its name and state."""
    return _jobs(parsed_args, lambda state: True)


def running_job_ids(parsed_args: argparse.Namespace, **ignored: Any) -> dict[str, str]:
    from sqlstream.messages.job_state import JobStatus

    return _jobs(parsed_args, lambda state: not JobStatus(state).is_terminal)


def _jobs(arguments: argparse.Namespace, is_wanted: Any) -> dict[str, str]:
    from sqlstream.client.commands.remote.server_arguments import server_address
    from sqlstream.client.connection.cluster_rest import ClusterRest
    from sqlstream.errors import SqlStreamError

    try:
        with ClusterRest(server_address(arguments)) as cluster:
            jobs = cluster.jobs()
    except SqlStreamError:
        # No server: there is nothing to complete, and no place for an error.
        return {}
    return {job["jid"]: f"{job['name']} {job['state']}" for job in jobs if is_wanted(job["state"])}


SHELLS = ("bash", "zsh", "fish")

EPILOG = """\
examples:
  eval "$(sqlstream completion bash)"                                          for this shell
  sqlstream completion bash > ~/.local/share/bash-completion/completions/sqlstream
  sqlstream completion zsh > ~/.zsh/completions/_sqlstream                     in a directory of $fpath
  sqlstream completion fish > ~/.config/fish/completions/sqlstream.fish

The script asks this command for words: commands, options, files, and the ids of a server's jobs.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def execute(arguments: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    script: str = shellcode(["sqlstream"], shell=arguments.shell)
    print(script)
    return 0
