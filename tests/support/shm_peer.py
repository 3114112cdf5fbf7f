# SPDX-License-Identifier: Apache-2.0
"""A client of a shared memory link, without an engine: for tests of what a client may do."""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HELLO = struct.Struct("<IIIIII")  # magic, version, slots, stride, flows, MB kept
RING = 192  # bytes: head, tail and asleep on a cache line each
HEAD, TAIL, ASLEEP = 0, 64, 128
TO_CLIENT, TO_SERVER = 0, RING
SLOTS_AT = 2 * RING
BYTES_AT = 8  # in a slot


@dataclass
class Peer:
    """What a client is given, and what it can do with it."""

    path: Path
    connection: socket.socket
    file: int  # of the memory
    memory: mmap.mmap
    wakes_server: int  # eventfd
    wake: socket.socket  # is woken by it
    slots: int
    stride: int
    flows: int  # of which it may tell what it decided

    def put(self, at: int, value: int, form: str = "<Q") -> None:
        size = struct.calcsize(form)
        # In one piece: pack_into() writes zeros first, which the engine may read.
        self.memory[at : at + size] = struct.pack(form, value & (2 ** (8 * size) - 1))


@contextmanager
def joined(path: Path, first: Callable[[int, mmap.mmap], None] | None = None) -> Iterator[Peer]:
    """`first` is done with the memory, by its descriptor and as it is mapped, before it says that
    it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        hello, fds, _, _ = socket.recv_fds(connection, HELLO.size, 8)
        _, _, slots, stride, flows, _ = HELLO.unpack(hello)
        # Its pages are ours to make.
        size, flags = os.fstat(fds[0]).st_size, mmap.MAP_SHARED | mmap.MAP_POPULATE
        memory = mmap.mmap(fds[0], size, flags)
        wake = socket.socket(fileno=fds[2])
        if first:
            first(fds[0], memory)
        connection.send(b"\0")
        connection.setblocking(False)
        try:
            yield Peer(path, connection, fds[0], memory, fds[1], wake, slots, stride, flows)
        finally:
            os.close(fds[0])
            os.close(fds[1])
            wake.close()
            memory.close()


def memory_given(path: Path) -> int:
    """The memory's descriptor, of a client that has gone again, and never was ready."""
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(10)
            connection.connect(str(path))
            hello, fds, _, _ = socket.recv_fds(connection, HELLO.size, 8)
        for one in fds[1:]:
            os.close(one)
        if hello:  # the last one's end was seen by then
            return fds[0]
