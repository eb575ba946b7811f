"""Opening a connection in this process."""

from __future__ import annotations

import pytest

from sqlstream.client.connection import connect


def test_settings_of_the_network_that_have_no_effect_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="^'jobmanager.rpc.address' has no effect: processes of one machine"):
        connect("embedded://", config={"jobmanager.rpc.address": "head"}).close()
