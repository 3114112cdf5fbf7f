# SPDX-License-Identifier: Apache-2.0
"""A VNF that means harm, at the other end of a shared memory link. Whatever it writes, sends or
takes away, the host's lcore goes on: a neighbour on the same lcore loses nothing, and the host
ends when it is told to."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.attacked import attacked_plan
from support.engine import Engine
from support.shm_attacks import (
    ATTACKS,
    LIBC,
    PUNCH_HOLE,
    flushes_lines,
    takes_lines,
    watched,
)
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
    memory_given,
)

Start = Callable[..., Engine]

PACKETS, ATTACKED_S = 40_000, 0.8
PACKETS_ASKED = 60_000  # with a word for each that its reader sleeps
PACKETS_SENT = 100
LATE = 10  # times 0.2 s: beside other work the thread that wakes has to wait, too


def host_plan(cpu: int, socket_path: Path, flows: int = 0) -> dict[str, Any]:
    """`flows`: of which the attacker may tell what it decided."""
    vf = {"type": "shm", "params": {"socket": str(socket_path), "offload": flows}}
    return attacked_plan(cpu, vf)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_neighbour_loses_nothing(
    start_engine: Start, cpus: list[int], tmp_path: Path, attack: Callable[[Peer, float], None]
) -> None:
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path, 64)) as host:
        with joined(path) as peer:
            host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
            host.call(
                "start",
                sources={
                    "gen": {"rate_pps": 200_000, "duration_s": 60},
                    "gen2": {"rate_pps": PACKETS / ATTACKED_S, "packets": PACKETS},
                },
            )
            attack(peer, time.monotonic() + ATTACKED_S)

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


WATCHES = 100_000
SECONDS = 3.0  # each wake-up takes 5 ms and more of the lcore's CPU time


def test_watchers_of_a_wake_up_take_little_of_the_lcore(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """Between dear wake-ups there is a pause; packets go on meanwhile."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        watching = watched(peer, WATCHES)
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


def test_pages_cannot_be_taken_away(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """Each would be a fault at its next use, in the host: not by the mapping, nor by the file."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        with pytest.raises(PermissionError):
            peer.memory.madvise(mmap.MADV_REMOVE, 1 << 16, 1 << 12)
        assert LIBC.fallocate(peer.file, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(1 << 12)) == -1
        with pytest.raises(PermissionError):
            os.ftruncate(peer.file, 0)
        with pytest.raises(PermissionError):
            os.pwrite(peer.file, b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(peer.file, 1 << 12)
        assert host.read()["links"]["vf"]["robbed"] == 0


def takes_one_early(file: int, memory: mmap.mmap) -> None:
    memory.madvise(mmap.MADV_REMOVE, 1 << 16, 1 << 12)


def keeps_seals_off(file: int, memory: mmap.mmap) -> None:
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)


@pytest.mark.parametrize("how", [takes_one_early, keeps_seals_off], ids=lambda how: how.__name__)
def test_memory_that_cannot_be_sealed_whole_is_not_used(
    start_engine: Start, cpus: list[int], tmp_path: Path, how: Callable[[int, mmap.mmap], None]
) -> None:
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host:
        with joined(path, how):
            host.wait_for(
                lambda: host.read()["links"]["vf"]["robbed"] == 1, "the robbery to be seen"
            )
            assert not host.read()["links"]["vf"]["up"]
            with joined(path):
                host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the next peer")
        assert host.read()["links"]["vf"]["robbed"] == 1


def test_who_keeps_memory_pays_for_it(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A client that comes again and again keeps all that it is given, 200 MB a second, by
    descriptors that count for nobody. So it has no pages yet: who makes them pays for them."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host:
        kept = [memory_given(path) for _ in range(20)]
        sizes = [os.fstat(one).st_size for one in kept]
        assert min(sizes) > 1 << 20
        assert [os.fstat(one).st_blocks for one in kept] == [0] * len(kept)
        _is_served_again(host, path)
        assert host.read()["links"]["vf"]["robbed"] == 0
        for one in kept:
            os.close(one)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="what it runs is x86's")
@pytest.mark.parametrize("attack", [takes_lines, flushes_lines], ids=lambda one: one.__name__)
def test_looks_that_wait_are_paid_from_a_budget(
    start_engine: Start, cpus: list[int], tmp_path: Path, attack: Callable[[Peer, float], None]
) -> None:
    """Who keeps from its host the line that it looks at for packets is passed by in many turns, the
    more the dearer the line is (a sixth of them where it takes 60 cycles, most where 340), is
    served all the same, and is looked at in each turn again when it stops."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        host.call("start", sources={"gen2": {"rate_pps": 0, "duration_s": 120}})
        until, before = time.monotonic() + 60, looks(host)
        while True:
            attack(peer, time.monotonic() + 0.3)
            passed, polls = looks(host)
            if passed - before[0] > (polls - before[1]) / 10:
                break
            assert time.monotonic() < until, (before, passed, polls)
            before = passed, polls
        for slot in range(PACKETS_SENT):
            at = SLOTS_AT + (peer.slots + slot) * peer.stride
            peer.put(at + BYTES_AT, 60, "<I")
        peer.put(TO_SERVER + HEAD, PACKETS_SENT)
        host.wait_for(
            lambda: host.read()["links"]["vf"]["rx_packets"] == PACKETS_SENT, "its packets"
        )
        time.sleep(0.1)
        passed, polls = looks(host)
        time.sleep(0.3)
        after = looks(host)
        assert after[0] - passed < (after[1] - polls) / 20
        host.call("stop")


def looks(host: Engine) -> tuple[int, int]:
    """Turns in which the link was passed by, of so many."""
    read = host.read()
    return read["links"]["vf"]["turns_passed"], read["segments"]["in"][0]["polls"]


def test_wake_ups_are_paid_from_a_budget(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """Who says all the time that it sleeps is woken for few of its packets."""
    path = tmp_path / "vf.sock"
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        host.call("start", sources={"gen": {"rate_pps": 200_000, "duration_s": 60}})
        peer.wake.setblocking(False)
        woken, began = 0, time.monotonic()
        read = host.read()["links"]["vf"]
        # As long as it takes to ask so often: beside other work neither side has a CPU to itself.
        while read["tx_packets"] < PACKETS_ASKED or not read["wakes_held"] + read["wakes_paused"]:
            assert time.monotonic() < began + 60, read
            for _ in range(5000):
                peer.put(TO_CLIENT + ASLEEP, 1, "<I")
                peer.memory[TO_CLIENT + TAIL : TO_CLIENT + TAIL + 8] = peer.memory[:8]
                with contextlib.suppress(BlockingIOError):
                    woken += len(peer.wake.recv(8))
            read = host.read()["links"]["vf"]
        host.call("stop")
        assert 0 < woken < read["tx_packets"] / 3


def test_last_packet_beyond_the_budget_wakes_its_reader(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """One that sleeps whenever it has all is woken for the last packet, too, though the lcore has
    no more reason to look. Where a hypervisor makes wake-ups dear there are pauses, in which a
    reader looks by itself."""
    path, packets = tmp_path / "vf.sock", 100_000
    with start_engine(host_plan(cpus[0], path)) as host, joined(path) as peer:
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the peer")
        peer.wake.settimeout(0.2)
        order = {"rate_pps": 200_000, "packets": packets, "duration_s": 30}
        host.call("start", sources={"gen": order})
        head, missed, until = 0, 0, time.monotonic() + 60
        while time.monotonic() < until:
            peer.put(TO_CLIENT + TAIL, head)
            peer.put(TO_CLIENT + ASLEEP, 1, "<I")
            if there(peer) == head and not is_woken(peer):
                links = host.read()["links"]
                if links["gen"]["state"] == "done" and links["vf"]["tx_packets"] == head:
                    break  # what its ring had no room for is not among them
                # What lies there now was put there while it slept.
                missed += there(peer) != head and not any(is_woken(peer) for _ in range(LATE))
            head = there(peer)
        read = host.read()["links"]["vf"]
        # While it slept through a pause its ring was full.
        assert (head == read["tx_packets"] > 0 and not missed) or read["wakes_paused"]
        assert read["wakes_held"] + read["wakes_paused"] > 0


def there(peer: Peer) -> int:
    """Up to where there are packets for it."""
    return int(struct.unpack_from("<Q", peer.memory, TO_CLIENT + HEAD)[0])


def is_woken(peer: Peer) -> bool:
    try:
        return bool(peer.wake.recv(8))
    except TimeoutError:
        return False
