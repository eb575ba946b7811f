"""The tag of the wheel: Linux and its machine, and every Python that pyproject.toml allows.

docs/decisions/0019-a-wheel-for-linux.md has the reasons.
"""

from __future__ import annotations

import platform
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class LinuxWheel(bdist_wheel):
    """A wheel that pip installs on Linux alone."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", f"manylinux_2_28_{platform.machine()}"


if sys.platform != "linux":
    sys.exit("sqlstream needs Linux: its processes are started, bounded and ended by what Linux offers")
setup(cmdclass={"bdist_wheel": LinuxWheel})
