"""On the import path of child processes of tests alone: their TaskManagers know the connectors of interrupted_connectors.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from interrupted_connectors import register

register()
