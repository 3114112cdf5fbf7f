# SPDX-License-Identifier: Apache-2.0
"""A VNF that means harm, at the other end of a shared memory link. Whatever it writes, sends or
takes away, the host's lcore goes on: a neighbour on the same lcore loses nothing, and the host
ends when it is told to."""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import random
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine
from support.shm_peer import (
    ASLEEP,
    BYTES_AT,
    HEAD,
    SLOTS_AT,
    TAIL,
    TO_CLIENT,
    TO_SERVER,
    Peer,
    joined,
)

Start = Callable[..., Engine]

PACKETS = 40_000


def host_plan(cpu: int, socket_path: Path) -> dict[str, Any]:
    """The attacked link and a neighbour, whose packets come back, on one lcore."""
    return {
        "version": 1,
        "engine": memory_engine(),
        "links": {
            "gen": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}},
            "vf": {"type": "shm", "params": {"socket": str(socket_path)}},
            "meas": {"type": "sink", "params": {}},
            "gen2": {"type": "source", "params": {"frame_bytes": [64], "flows": 16}},
            "meas2": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "out", "cpus": [cpu], "inputs": [{"link": "gen", "to": "link:vf"}]},
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "vf", "to": "link:meas"}]},
            {"name": "next", "cpus": [cpu], "inputs": [{"link": "gen2", "to": "link:meas2"}]},
        ],
    }


def wants_to_be_woken(peer: Peer, until: float) -> None:
    """It says that it sleeps, never reads a wake-up, and takes back O_NONBLOCK wherever it can."""
    flags = fcntl.fcntl(peer.wake, fcntl.F_GETFL)
    fcntl.fcntl(peer.wake, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
    while time.monotonic() < until:
        for _ in range(1000):
            peer.put(TO_CLIENT + ASLEEP, 1, "<I")
            peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
        time.sleep(0.0005)


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
    while time.monotonic() < until:
        peer.memory.madvise(mmap.MADV_REMOVE)
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


ATTACKS = [
    wants_to_be_woken, floods_with_wake_ups, takes_pages_away, writes_nonsense, comes_and_goes,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_neighbour_loses_nothing(
    start_engine: Start, cpus: list[int], tmp_path: Path, attack: Callable[[Peer, float], None]
) -> None:
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host:
        with joined(path) as peer:
            host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
            host.call(
                "start",
                sources={
                    "gen": {"rate_pps": 200_000, "duration_s": 60},
                    "gen2": {"rate_pps": PACKETS, "packets": PACKETS},
                },
            )
            attack(peer, time.monotonic() + 1.5)

        def arrived() -> bool:
            return bool(host.read()["links"]["gen2"]["state"] == "done")

        host.wait_for(arrived, "the neighbour's packets", 60)
        time.sleep(0.05)
        links = host.read()["links"]
        assert links["meas2"]["received"] == links["gen2"]["sent"] > 0
        assert links["meas2"]["stamped"] == links["gen2"]["sent"]
        assert links["meas2"]["reordered"] == links["meas2"]["duplicated"] == 0
        host.call("stop")
        host.wait_for(lambda: host.read()["links"]["gen"]["state"] == "done", "the end of sending")
        _is_served_again(host, path)


def _is_served_again(host: Engine, path: Path) -> None:
    """The next client of the same link finds nothing of this one's."""
    host.wait_for(lambda: not host.read()["links"]["vf"]["up"], "the peer's end")
    with joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the next peer")
        assert bytes(peer.memory) == bytes(len(peer.memory))
        host.call("start", sources={"gen": {"rate_pps": 10_000, "packets": 100}})
        host.wait_for(
            lambda: struct.unpack_from("<Q", peer.memory, TO_CLIENT + HEAD)[0] >= 100,
            "100 packets in the ring",
        )


WATCHES, COPIES = 100_000, 400
SECONDS = 3.0  # each wake-up takes 5 ms and more of the lcore's CPU time


def _watched(peer: Peer) -> list[select.epoll]:
    """Very many watch what it is woken by: each copy of the descriptor, in each of many epolls."""
    copies = [os.dup(peer.wake.fileno()) for _ in range(COPIES)]
    epolls = [select.epoll() for _ in range(WATCHES // COPIES)]
    for one in epolls:
        for copy in copies:
            one.register(copy, select.EPOLLIN)
    for copy in copies:
        os.close(copy)
    return epolls


def test_watchers_of_a_wake_up_take_little_of_the_lcore(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """Between dear wake-ups there is a pause; packets go on meanwhile."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        watching = _watched(peer)
        peer.wake.setblocking(False)
        host.call("start", sources={"gen": {"rate_pps": 20_000, "duration_s": 60}})
        woken, until = 0, time.monotonic() + SECONDS
        while time.monotonic() < until:
            peer.put(TO_CLIENT + ASLEEP, 1, "<I")
            peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
            with contextlib.suppress(BlockingIOError):
                woken += len(peer.wake.recv(8))
        sent = host.read()["links"]["vf"]["tx_packets"]
        host.call("stop")
        for one in watching:
            one.close()
        # Without pauses: 160 packets in three seconds.
        assert woken >= 1 and sent > 1000


def test_pages_taken_away_cost_a_client_its_memory(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        assert host.read()["links"]["vf"]["robbed"] == 0
        peer.memory.madvise(mmap.MADV_REMOVE, 1 << 16, 1 << 12)
        host.wait_for(lambda: host.read()["links"]["vf"]["robbed"] == 1, "the robbery to be seen")
        assert not host.read()["links"]["vf"]["up"]
        with joined(path) as second:
            host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the next peer")
            peer.memory.madvise(mmap.MADV_REMOVE)  # of the first's memory: nobody's harm
            time.sleep(0.6)
            assert host.read()["links"]["vf"]["up"]
            assert host.read()["links"]["vf"]["robbed"] == 1
            assert len(second.memory) == len(peer.memory)
