"""`python -m sqlstream` is the `sqlstream` command."""

from __future__ import annotations

if __name__ == "__main__":
    # By name: the package of words imports none of the others.
    __import__("sqlstream.client.start", fromlist=["command"]).command()
