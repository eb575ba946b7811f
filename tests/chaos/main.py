"""`make chaos SECONDS=… SEED=… [HOSTS=1]`: run the job of the chaos tests for as long as wanted, and print what it met."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from chaos.chaos_run import ChaosRun  # noqa: E402 (found by the line above)
from chaos.hosts_run import HostsRun  # noqa: E402


def main() -> int:
    """0 when every sink has every row once, 1 otherwise; what is needed to look into it then stays in the directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows-per-file", type=int, default=0, help="as many as the length allows")
    parser.add_argument(
        "--hosts", action="store_true", help="three hosts, with a server and a TaskManager each"
    )
    parser.add_argument("--kill-server", action="store_true", help="the server is killed too now and then")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the job"
    )
    parser.add_argument("--directory", type=Path, help="keep everything here")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="sqlstream-chaos-"))
    print(f"seed {arguments.seed}, {arguments.seconds:g} s, in {directory}", flush=True)

    def say(line: str) -> None:
        print(f"  {line}", flush=True)

    if arguments.hosts:
        there = HostsRun(directory, arguments.seed, arguments.seconds, say).run()
        print("\n".join(there.lines()))
        return 1 if there.lost or there.doubled else 0
    run = ChaosRun(
        directory,
        arguments.seed,
        arguments.seconds,
        arguments.rows_per_file,
        arguments.kill_server,
        dict(setting.split("=", 1) for setting in arguments.set),
        say,
    )
    figures = run.run()
    print("\n".join(figures.lines()))
    return 1 if any((*figures.lost.values(), *figures.doubled.values())) else 0


if __name__ == "__main__":
    sys.exit(main())
