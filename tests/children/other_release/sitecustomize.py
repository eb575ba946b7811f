"""With this folder in PYTHONPATH a process is of the release OTHER_RELEASE, and joins with OTHER_PROTOCOL where that is set."""

import os

import sqlstream

sqlstream.__version__ = os.environ["OTHER_RELEASE"]

if "OTHER_PROTOCOL" in os.environ:
    from sqlstream.runtime.net import joining

    joining.PROTOCOL_VERSION = int(os.environ["OTHER_PROTOCOL"])
