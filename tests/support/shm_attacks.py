# SPDX-License-Identifier: Apache-2.0
"""What a client of a shared memory link may try against its host (support/shm_peer.py): each until
a time, as fast as one process can."""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import random
import select
import socket
import struct
import time
from collections.abc import Callable

from support.shm_peer import (
    ASLEEP,
    BYTES_AT,
    HEAD,
    SLOTS_AT,
    TAIL,
    TO_CLIENT,
    TO_SERVER,
    Peer,
)

LIBC = ctypes.CDLL(None, use_errno=True)
PUNCH_HOLE = 3  # fallocate(2), with FALLOC_FL_KEEP_SIZE
MADV_PAGEOUT, MADV_COLLAPSE = 21, 25  # madvise(2)
SO_ATTACH_FILTER = 26
WATCHES, COPIES = 20_000, 400  # of a wake-up: each costs whoever wakes 40 to 90 ns
CLFLUSH = bytes.fromhex("0fae3f 4883c740 4839f7 72f4 c3")  # of all lines from rdi to rsi
STORES = bytes.fromhex("488b07 488907 48ffce 75f8 c3")  # of what is at rdi, rsi times


def drains(peer: Peer, until: float) -> None:
    """No attack: it looks for packets all the time, and takes what comes."""
    while time.monotonic() < until:
        for _ in range(100):
            peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]


def sends(peer: Peer, until: float) -> None:
    """No attack: as many packets as `writes_nonsense` says that it sends, and these are some."""
    choose, other = random.Random(1), bytearray(len(peer.memory))
    for slot in range(2 * peer.slots):
        peer.put(SLOTS_AT + slot * peer.stride + BYTES_AT, 60, "<I")
    head = 0
    while time.monotonic() < until:
        for _ in range(500):
            at = choose.randrange(len(other) - 64)
            other[at : at + 64] = choose.randbytes(64)
            if choose.random() < 0.5:
                head += choose.randrange(64)
                peer.put(TO_SERVER + HEAD, head)
        peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]


def wants_to_be_woken(peer: Peer, until: float) -> None:
    """It says that it sleeps, never reads a wake-up, and takes back O_NONBLOCK wherever it can."""
    flags = fcntl.fcntl(peer.wake, fcntl.F_GETFL)
    fcntl.fcntl(peer.wake, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    while time.monotonic() < until:
        for _ in range(1000):
            peer.put(TO_CLIENT + ASLEEP, 1, "<I")
            peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
        time.sleep(0.0005)


def makes_wake_ups_dear(peer: Peer, until: float) -> None:
    """Whoever sends it a message runs a program of its own (a socket filter)."""
    divide = [(0x34, 0, 0, 3)] * 4094  # BPF_ALU, BPF_DIV
    program = [(0x00, 0, 0, 0xFFFFFFFF), *divide, (0x06, 0, 0, 0)]  # BPF_LD, ..., BPF_RET: dropped
    code = b"".join(struct.pack("=HBBI", *one) for one in program)
    held = ctypes.create_string_buffer(code)
    form = struct.pack("HL", len(program), ctypes.addressof(held))
    peer.wake.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, form)
    wants_to_be_woken(peer, until)


def watched(peer: Peer, watches: int) -> list[select.epoll]:
    """Very many watch what it is woken by: each copy of the descriptor, in each of many epolls."""
    copies = [os.dup(peer.wake.fileno()) for _ in range(COPIES)]
    epolls = [select.epoll() for _ in range(watches // COPIES)]
    for one in epolls:
        for copy in copies:
            one.register(copy, select.EPOLLIN)
    for copy in copies:
        os.close(copy)
    return epolls


def has_many_watch_it(peer: Peer, until: float) -> None:
    watching = watched(peer, WATCHES)
    wants_to_be_woken(peer, until)
    for one in watching:
        one.close()


def floods_with_wake_ups(peer: Peer, until: float) -> None:
    passed = array.array("i", [peer.wake.fileno()] * 16)
    peer.wake.setblocking(False)
    while time.monotonic() < until:
        try:
            for _ in range(100):
                peer.wake.sendmsg([bytes(60000)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        except (BlockingIOError, OSError):
            time.sleep(0.0005)
        os.write(peer.wakes_server, struct.pack("<Q", 1))


def takes_pages_away(peer: Peer, until: float) -> None:
    """By its mapping and by the descriptor; and has them written elsewhere, and gathered."""
    while time.monotonic() < until:
        for advice in (mmap.MADV_REMOVE, MADV_PAGEOUT, MADV_COLLAPSE):
            with contextlib.suppress(OSError):
                peer.memory.madvise(advice)
        LIBC.fallocate(peer.file, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(len(peer.memory)))
        with contextlib.suppress(OSError):
            os.ftruncate(peer.file, 0)
        time.sleep(0.0002)


def writes_nonsense(peer: Peer, until: float) -> None:
    """Indices, lengths and flags, at random; a part of the time such as could be."""
    choose = random.Random(1)
    size = len(peer.memory)
    fields = [ring + field for ring in (TO_CLIENT, TO_SERVER) for field in (HEAD, TAIL, ASLEEP)]
    head = 0
    while time.monotonic() < until:
        for _ in range(500):
            slot = choose.randrange(2 * peer.slots)
            length = choose.choice([0, 1, 60, peer.stride, 65535, 2**31, 2**32 - 1])
            peer.put(SLOTS_AT + slot * peer.stride + BYTES_AT, length, "<I")
            if choose.random() < 0.5:
                head += choose.randrange(64)
                peer.put(TO_SERVER + HEAD, head)
            else:
                peer.put(choose.choice(fields), choose.getrandbits(64))
            at = choose.randrange(size - 64)
            peer.memory[at : at + 64] = choose.randbytes(64)
        time.sleep(0.0005)


def tells_nonsense(peer: Peer, until: float) -> None:
    """Decisions for the flows that it is given, of which anything may be false, and words on which
    of them hold. Where nothing is asked of it, the same number of writes."""
    choose = random.Random(1)
    area = SLOTS_AT + 2 * peer.slots * peer.stride
    if not peer.flows:
        area = SLOTS_AT
    head = 0
    while time.monotonic() < until:
        for _ in range(300):
            at = SLOTS_AT + choose.randrange(peer.slots) * peer.stride + 16
            frame = peer.memory[at : at + 64]
            last = frame[34:38] + frame[23:24] + bytes(3)
            key = frame[26:34] + last + bytes(24)
            told = bytearray(choose.randbytes(128))
            if choose.random() < 0.8:  # as could be: it hits
                told[:40] = key
                told[96:100] = bytes((3, 1, choose.choice((0, 1, 9)), 0))
                told[100:104] = choose.randrange(2 * (peer.flows or 1)).to_bytes(4, "little")
                told[104:112] = bytes(8)
            place = area + 320 + head % 1024 * 128
            peer.memory[place : place + 128] = bytes(told)
            head += 1 if choose.random() < 0.99 else choose.getrandbits(16)
            peer.put(area, head)
            peer.put(area + 128, choose.getrandbits(64) if choose.random() < 0.1 else 2**62)
            if choose.random() < 0.01:
                peer.put(area + choose.choice((64, 192, 256, 264)), choose.getrandbits(32), "<I")
        peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
        time.sleep(0.0005)


def comes_and_goes(peer: Peer, until: float) -> None:
    peer.connection.close()
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as again:
            again.setblocking(False)
            try:
                again.connect(str(peer.path))
                again.send(b"\0\0\0")
                again.send(b"\0")
            except OSError:
                time.sleep(0.0002)


def _native(code: bytes) -> Callable[[int, int], None]:
    """As a compiled VNF would run it."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    function = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)(at)

    def run(first: int, second: int) -> None:
        assert page  # it lives as long as this
        function(first, second)

    return run


def takes_lines(peer: Peer, until: float) -> None:
    """It writes what is there already, so that the line which the host looks at for packets is
    never in the host's cache."""
    store, held = _native(STORES), (ctypes.c_char * len(peer.memory)).from_buffer(peer.memory)
    while time.monotonic() < until:
        store(ctypes.addressof(held) + TO_SERVER + HEAD, 100_000)
        peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
    del held  # or the mapping cannot be closed


def flushes_lines(peer: Peer, until: float) -> None:
    """All of the memory out of all caches, again and again."""
    flush, held = _native(CLFLUSH), (ctypes.c_char * len(peer.memory)).from_buffer(peer.memory)
    first = ctypes.addressof(held)
    while time.monotonic() < until:
        for _ in range(20):
            flush(first, first + SLOTS_AT)
        flush(first, first + len(peer.memory))
        peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
    del held


ATTACKS = [
    wants_to_be_woken, makes_wake_ups_dear, has_many_watch_it, floods_with_wake_ups,
    takes_pages_away, writes_nonsense, tells_nonsense, comes_and_goes,
]  # fmt: skip
if platform.machine() == "x86_64":
    ATTACKS += [takes_lines, flushes_lines]
