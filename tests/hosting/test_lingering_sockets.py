# SPDX-License-Identifier: Apache-2.0
"""A VNF sends TCP sockets to its host, which wait an hour when they are closed (SO_LINGER), and
closes its own. Whoever takes the message they are in, or closes what it is in, closes them."""

from __future__ import annotations

import array
import ctypes
import multiprocessing
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.engine import Engine, memory_engine
from support.shm_peer import HEAD, SLOTS_AT, TO_SERVER, Peer, joined

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
Rights = list[tuple[int, int, "array.array[int]"]]
PACKETS = 20_000  # more than slots: the ring is used over and over
BURST = 500  # of 1024 slots
SERVED_S = 3.0
FORK = multiprocessing.get_context("fork")
FRAME = bytes(12) + b"\x08\x00" + bytes(46)


def host_plan(cpu: int, vf: Path, good: Path, wait: str) -> dict[str, Any]:
    """The attacked link and a neighbour's on one lcore, which has nothing else to do."""
    return {
        "version": 1,
        "engine": memory_engine(wait={"mode": wait}),
        "links": {
            "vf": {"type": "shm", "params": {"socket": str(vf)}},
            "good": {"type": "shm", "params": {"socket": str(good)}},
            "meas": {"type": "sink", "params": {}},
            "meas2": {"type": "sink", "params": {}},
        },
        "segments": [
            {"name": "in", "cpus": [cpu], "inputs": [{"link": "vf", "to": "link:meas"}]},
            {"name": "next", "cpus": [cpu], "inputs": [{"link": "good", "to": "link:meas2"}]},
        ],
    }


def lingering(server: socket.socket) -> socket.socket:
    """Has more to send than is ever read."""
    sender = socket.create_connection(server.getsockname())
    sender.setblocking(False)
    try:
        while sender.send(bytes(65536)):
            pass
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return sender


def instead_of_ready(peer: Peer, rights: Rights) -> None:
    peer.connection.close()
    time.sleep(0.2)
    peer.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connection.connect(str(peer.path))
    peer.connection.sendmsg([b"\0"], rights)


def after_ready(peer: Peer, rights: Rights) -> None:
    peer.connection.sendmsg([b"\0"], rights)


def before_it_is_let_in(peer: Peer, rights: Rights) -> None:
    """The last of many that come at once have said all before the host looks."""
    for _ in range(20):
        second = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        second.setblocking(False)
        try:
            second.connect(str(peer.path))
            second.sendmsg([b"\0"], rights)
        except (BlockingIOError, BrokenPipeError):
            time.sleep(0.01)


def as_wake_up(peer: Peer, rights: Rights) -> None:
    peer.wake.sendmsg([b"\0"], rights)


def in_its_own_end(peer: Peer, rights: Rights) -> None:
    """The end that wakes it gets a name and other senders; the host must not hold it, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.connect(peer.wake.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)
    peer.wake.bind(f"\0hr-{os.getpid()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendmsg([b"\0"], rights, 0, peer.wake.getsockname())


WAYS = [instead_of_ready, after_ready, before_it_is_let_in, as_wake_up, in_its_own_end]


def send_packets(peer: Peer, host: Engine, first: int, count: int) -> None:
    for index in range(first, first + count):
        at = SLOTS_AT + (peer.slots + index % peer.slots) * peer.stride
        struct.pack_into("<QII", peer.memory, at, 1, len(FRAME), 0)
        peer.memory[at + 16 : at + 16 + len(FRAME)] = FRAME
    peer.put(TO_SERVER + HEAD, first + count)
    os.write(peer.wakes_server, struct.pack("<Q", 1))
    host.wait_for(
        lambda: host.read()["links"]["good"]["rx_packets"] == first + count,
        "the neighbour's packets",
        SERVED_S,
        0.005,
    )


def attack(path: Path, way: Callable[[Peer, Rights], None], server: socket.socket) -> None:
    """In a process of its own: one that ends waits for no socket."""
    with joined(path) as peer:
        time.sleep(0.2)  # it is up
        sender = lingering(server)
        try:
            way(peer, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))])
            sender.close()  # the host's is the last one now
        except BrokenPipeError:
            pass
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("wait", ["poll", "interrupt"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_waits_for_them(
    start_engine: Start,
    cpus: list[int],
    tmp_path: Path,
    way: Callable[[Peer, Rights], None],
    wait: str,
) -> None:
    paths = tmp_path / "vf.sock", tmp_path / "good.sock"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        start_engine(host_plan(cpus[0], *paths, wait)) as host,
        joined(paths[1]) as neighbour,
    ):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bad = FORK.Process(target=attack, args=(paths[0], way, server))
        bad.start()
        host.wait_for(lambda: all(up(host)), "both peers", pause=0.01)
        bad.join(2)
        bad.kill()
        for first in range(0, PACKETS, BURST):
            send_packets(neighbour, host, first, BURST)
        host.wait_for(lambda: not up(host)[0], "the peer's end", SERVED_S)
        with joined(paths[0]):
            host.wait_for(lambda: all(up(host)), "the next peer", SERVED_S)
        last = host.read()
        assert last["links"]["good"]["corrupt"] == 0
        assert last["links"]["good"]["rx_packets"] == last["segments"]["next"][0]["in"] == PACKETS
        host.process.terminate()
        assert host.process.wait(timeout=SERVED_S) == 0


def up(host: Engine) -> list[bool]:
    links = host.read()["links"]
    return [links["vf"]["up"], links["good"]["up"]]
