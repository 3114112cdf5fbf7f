# SPDX-License-Identifier: Apache-2.0
"""A client of a memif, without DPDK: for tests of what the peer of DPDK's driver may do.

The protocol is that of libmemif and of DPDK's drivers/net/memif/memif.h, version 2.0: the client
hands over its memory as regions, and says where in them each ring is."""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COOKIE, VERSION = 0x3E31F20, 2 << 8
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED = 1, 2, 3, 4, 5, 6, 7
MESSAGE = 128  # bytes
LOG2_SLOTS = 8
SLOTS = 1 << LOG2_SLOTS
FLAGS, HEAD, TAIL, DESCRIPTORS = 4, 6, 64, 128  # in a ring
DESCRIPTOR = struct.Struct("<HHIII")  # flags, region, length, offset, metadata
NEXT = 1  # a flag: the packet goes on in the next one
NO_WAKE_UPS = 1  # a ring's flag
RING = DESCRIPTORS + SLOTS * DESCRIPTOR.size
TO_SERVER, TO_CLIENT = 0, RING
BUFFERS, BUFFER = 2 * RING, 2048
SIZE = BUFFERS + 2 * SLOTS * BUFFER
FRAME = bytes(12) + b"\x08\x00" + bytes(46)


@dataclass
class MemifPeer:
    """What it shares with the server: one region, which is all its own."""

    connection: socket.socket
    file: int
    memory: mmap.mmap
    wake_ups: tuple[int, int]  # of the server's, by ring

    def describe(
        self, slot: int, *, ring: int = TO_SERVER, flags: int = 0, region: int = 0,
        length: int = len(FRAME), offset: int | None = None,
    ) -> None:  # fmt: skip
        """Where the packet of a slot is: as it should be, where nothing else is asked."""
        buffer = BUFFERS + (slot + (SLOTS if ring else 0)) * BUFFER
        at = ring + DESCRIPTORS + slot * DESCRIPTOR.size
        where = buffer if offset is None else offset
        DESCRIPTOR.pack_into(self.memory, at, flags, region, length, where, 0)

    def put(self, field: int, value: int) -> None:
        self.memory[field : field + 2] = struct.pack("<H", value & 0xFFFF)

    def get(self, field: int) -> int:
        return int(struct.unpack_from("<H", self.memory, field)[0])

    def send(self, packets: int) -> None:
        self.put(TO_SERVER + HEAD, self.get(TO_SERVER + HEAD) + packets)


def _say(connection: socket.socket, kind: int, rest: bytes, *files: int) -> None:
    message = (struct.pack("<H", kind) + rest).ljust(MESSAGE, b"\0")
    socket.send_fds(connection, [message], files)


def _ring(connection: socket.socket, to_server: bool, offset: int, wake_ups: int) -> None:
    rest = struct.pack("<HHHIBH", to_server, 0, 0, offset, LOG2_SLOTS, 0)
    _say(connection, ADD_RING, rest, wake_ups)
    assert _answer(connection) == ACK


def _answer(connection: socket.socket) -> int:
    message = connection.recv(MESSAGE)
    return int(struct.unpack_from("<H", message)[0])


@contextmanager
def memif_joined(path: Path, to_server: int = TO_SERVER) -> Iterator[MemifPeer]:
    """Connected, with rings that ask for no wake-ups, all descriptors right and no packet sent.
    `to_server`: where it says that this ring is."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        file = os.memfd_create("memif", os.MFD_ALLOW_SEALING)
        os.ftruncate(file, SIZE)
        wake_ups = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK)
        memory = mmap.mmap(file, SIZE)
        peer = MemifPeer(connection, file, memory, wake_ups)
        for ring in (TO_SERVER, TO_CLIENT):
            struct.pack_into("<IH", memory, ring, COOKIE, NO_WAKE_UPS)
            for slot in range(SLOTS):
                length = len(FRAME) if ring == TO_SERVER else BUFFER
                peer.describe(slot, ring=ring, length=length)
        for slot in range(SLOTS):
            at = BUFFERS + slot * BUFFER
            memory[at : at + len(FRAME)] = FRAME
        assert _answer(connection) == HELLO
        _say(connection, INIT, struct.pack("<HIB24s32s", VERSION, 0, 0, b"", b"a peer"))
        assert _answer(connection) == ACK
        _say(connection, ADD_REGION, struct.pack("<HQ", 0, SIZE), file)
        assert _answer(connection) == ACK
        _ring(connection, True, to_server, wake_ups[0])
        _ring(connection, False, TO_CLIENT, wake_ups[1])
        _say(connection, CONNECT, b"peer".ljust(32, b"\0"))
        assert _answer(connection) == CONNECTED
        try:
            yield peer
        finally:
            for one in (file, *wake_ups):
                os.close(one)
