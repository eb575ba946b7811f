"""Files without a name, mapped into memory: their pages can be written out and dropped by the system, and go with the process."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np

PART_BYTES = 2 << 20
"""What is mapped, measured and unmapped together: a page of the processor's page tables, or a huge page of memory."""
_MAP_FAILED = ctypes.c_void_p(-1).value
_ENTRY_BYTES = 8
_PRESENT = np.uint64(63)

Array = np.ndarray[Any, Any]


class Mapping:
    """`nbytes` bytes of a file at `address`, readable and writable. An array over it keeps it; its pages are unmapped with the
    last of them. `OSError` when the system maps no more. `is_read_mostly`: it is seldom written."""

    __slots__ = ("__array_interface__", "__weakref__", "address", "is_read_mostly", "nbytes")

    def __init__(self, descriptor: int, nbytes: int, *, is_read_mostly: bool = False) -> None:
        libc = _libc()
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
        address = libc.mmap(None, nbytes, protection, flags, descriptor, 0)
        if address is None or address == _MAP_FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        # A fault then maps what lies in one page of the page table at once, where the file system keeps files in pages so large.
        libc.madvise(address, nbytes, mmap.MADV_HUGEPAGE)
        self.address: int = address
        self.nbytes = nbytes
        self.is_read_mostly = is_read_mostly
        self.__array_interface__ = {
            "data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        weakref.finalize(self, libc.munmap, address, nbytes).atexit = False

    def drop(self, start: int, length: int) -> None:
        """Unmap pages until they are used again. Their content stays, in the system's cache or in the file."""
        _libc().madvise(self.address + start, min(length, self.nbytes - start), mmap.MADV_DONTNEED)

    def write_out(self, start: int, length: int) -> None:
        """As `drop`, and have the system write the pages to the disk and forget them: for measurements."""
        length = min(length, self.nbytes - start)
        libc = _libc()
        libc.msync(self.address + start, length, _MS_SYNC)
        libc.madvise(self.address + start, length, _MADV_PAGEOUT)

    def resident_bytes(self, page_map: int, part_bytes: int) -> Array:
        """int64: how much of each part of this size is mapped at present; `page_map` is a descriptor of /proc/self/pagemap."""
        pages = self.nbytes // mmap.PAGESIZE
        entries = os.pread(page_map, pages * _ENTRY_BYTES, self.address // mmap.PAGESIZE * _ENTRY_BYTES)
        is_present = (np.frombuffer(entries, dtype=np.uint64) >> _PRESENT).astype(np.int64)
        starts = np.arange(0, len(is_present), part_bytes // mmap.PAGESIZE)
        found: Array = np.add.reduceat(is_present, starts) * mmap.PAGESIZE
        return found


_MS_SYNC = 4
_MADV_PAGEOUT = 21


class MappedFile:
    """A file below a directory that nobody else can open: it has no name, and its space is free again when the process ends,
    however it ends.

    Every byte that is mapped has its place on the disk, so that a full disk is an OSError here, and no signal later. That does
    not hold on file systems that copy on write (btrfs, ZFS): there SIGBUS may end the process.
    State: the descriptor. Its mappings do not need it: they outlive this object."""

    def __init__(self, directory: str) -> None:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor).atexit = False

    def map(self, nbytes: int, *, is_read_mostly: bool = False) -> Mapping:
        """At least its first `nbytes` bytes; zeros where nothing was written. Earlier mappings show the same bytes."""
        unit = PART_BYTES if 2 * nbytes >= PART_BYTES else mmap.PAGESIZE
        nbytes = -(-nbytes // unit) * unit
        os.posix_fallocate(self._descriptor, 0, nbytes)
        return Mapping(self._descriptor, nbytes, is_read_mostly=is_read_mostly)


def can_map_files() -> bool:
    """Whether this system has what mapped state needs."""
    return hasattr(os, "posix_fallocate") and os.path.exists("/proc/self/pagemap")


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_long)
    libc.munmap.argtypes = (pointer, size)
    libc.madvise.argtypes = libc.msync.argtypes = (pointer, size, number)
    return libc
