"""The registry counts the references of kept checkpoints to files of state."""

from __future__ import annotations

import pytest

from runtime.jobmanager.shared_state_registry import SharedStateRegistry
from sqlstream.errors import InternalError


def paths(*names: str) -> frozenset[str]:
    return frozenset(f"shared/{name}.arrow" for name in names)


def test_a_file_goes_with_the_last_checkpoint_that_refers_to_it() -> None:
    registry = SharedStateRegistry()
    registry.retain(1, paths("a-1", "b-1"))
    registry.retain(2, paths("a-1", "b-2"))
    assert registry.needed == paths("a-1", "b-1", "b-2")
    assert registry.release(1) == paths("b-1")
    assert registry.release(1) == frozenset()
    assert registry.needed == paths("a-1", "b-2")
    assert registry.release(2) == paths("a-1", "b-2")
    assert registry.needed == frozenset()


def test_an_aborted_checkpoint_takes_only_its_own_files_with_it() -> None:
    registry = SharedStateRegistry()
    registry.retain(1, paths("a-1"))
    assert registry.abandoned(paths("a-1", "a-2")) == paths("a-2")
    assert registry.needed == paths("a-1")


def test_a_checkpoint_that_follows_one_that_is_gone_is_found() -> None:
    registry = SharedStateRegistry()
    registry.retain(1, paths("a-1", "b-1"))
    registry.retain(2, paths("a-2", "b-1"))
    registry.release(1)
    assert registry.missing(3, paths("a-2", "a-3", "b-1", "b-3")) == frozenset()
    assert registry.missing(3, paths("a-1", "a-3")) == paths("a-1")


def test_a_checkpoint_is_kept_once() -> None:
    registry = SharedStateRegistry()
    registry.retain(1, paths("a-1"))
    with pytest.raises(InternalError, match="kept twice"):
        registry.retain(1, paths("a-1"))
