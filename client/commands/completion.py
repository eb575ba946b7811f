"""`sqlstream completion SHELL`: the script that makes a shell complete the words of this command."""

from __future__ import annotations

import argparse

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
