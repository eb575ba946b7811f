"""`python -m sqlstream` is the `sqlstream` command."""

from __future__ import annotations

import importlib

if __name__ == "__main__":
    # By name: the package of words imports none of the others.
    importlib.import_module("client.main").command()
