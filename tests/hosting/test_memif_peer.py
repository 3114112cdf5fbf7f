# SPDX-License-Identifier: Apache-2.0
"""A peer that means harm at a port of DPDK's memif driver, which trusts it: what comes of each
thing that docs/design/security.md says it may do, to the engine and a neighbour on the same lcore.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.attacked import attacked_plan
from support.engine import Engine, EngineError
from support.lab import headrace, runtime_dir
from support.memif_peer import (
    BUFFER,
    BUFFERS,
    FLAGS,
    HEAD,
    NEXT,
    SIZE,
    SLOTS,
    TO_CLIENT,
    TO_SERVER,
    MemifPeer,
    memif_joined,
)

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
Attack = Callable[[MemifPeer], None]
SECONDS = 10.0  # until what comes of it is seen
STILL = 10  # looks, a tenth of a second apart
LONG = 65_000  # bytes; a buffer has 2,048


def host_plan(cpu: int, path: Path) -> dict[str, Any]:
    devargs = f"net_memif0,role=server,id=0,socket={path},socket-abstract=no"
    return attacked_plan(cpu, {"type": "port", "params": {"devargs": devargs}})


def names_another_region(peer: MemifPeer) -> None:
    peer.describe(0, region=255)
    peer.send(1)


def names_a_place_beyond_its_region(peer: MemifPeer) -> None:
    peer.describe(0, offset=0xFFFFFF00)
    peer.send(1)


def gives_the_memory_back(peer: MemifPeer) -> None:
    os.ftruncate(peer.file, BUFFERS)
    peer.describe(0, offset=SIZE - BUFFER)
    peer.send(1)


def lets_the_lcore_wait(peer: MemifPeer) -> None:
    """Its wake-ups are a descriptor of the peer's, whose O_NONBLOCK it takes away again."""
    os.set_blocking(peer.wake_ups[0], True)
    peer.put(TO_SERVER + FLAGS, 0)


def chains_without_end(peer: MemifPeer) -> None:
    for slot in range(SLOTS):
        peer.describe(slot, flags=NEXT)
    peer.send(1)


def writes_long_lengths(peer: MemifPeer) -> None:
    for slot in range(SLOTS):
        peer.describe(slot, length=LONG, offset=0)
    peer.send(SLOTS)


def writes_any_head(peer: MemifPeer) -> None:
    for head in (1, 2, 3, 5, 0x7FFF, 0x8000, 0xFFFF, 0, 77):
        for ring in (TO_SERVER, TO_CLIENT):
            peer.put(ring + HEAD, head)
        time.sleep(0.05)


@contextlib.contextmanager
def _beside(host: Engine, path: Path, attack: Attack) -> Iterator[None]:
    """The peer has joined and done it; the neighbour has packets all the time."""
    with memif_joined(path) as peer:
        host.wait_for(lambda: _links(host)["vf"]["up"], "the peer")
        sources = {"gen": {"rate_pps": 10_000, "duration_s": 60},
                   "gen2": {"rate_pps": 10_000, "duration_s": 60}}  # fmt: skip
        host.call("start", sources=sources)
        host.wait_for(lambda: _links(host)["meas2"]["received"] > 0, "the neighbour's packets")
        attack(peer)
        yield


def _links(host: Engine) -> dict[str, Any]:
    return dict(host.read()["links"])


@pytest.mark.parametrize(
    ("attack", "by"),
    [
        (names_another_region, signal.SIGSEGV), (names_a_place_beyond_its_region, signal.SIGSEGV),
        (gives_the_memory_back, signal.SIGBUS),
    ],
)  # fmt: skip
def test_the_engine_ends(
    start_engine: Start, cpus: list[int], tmp_path: Path, attack: Attack, by: signal.Signals
) -> None:
    path = tmp_path / "m.sock"
    with (
        pytest.raises(AssertionError, match=f"ended with -{by.value}"),
        start_engine(host_plan(cpus[0], path)) as host,
        _beside(host, path, attack),
    ):
        host.process.wait(SECONDS)


def test_a_ring_beyond_its_region_ends_the_engine(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "m.sock"
    with (
        pytest.raises(AssertionError, match=f"ended with -{signal.SIGSEGV.value}"),
        start_engine(host_plan(cpus[0], path)) as host,
    ):
        with contextlib.suppress(OSError, struct.error), memif_joined(path, SIZE + (1 << 30)):
            pass
        host.process.wait(SECONDS)


@pytest.mark.parametrize("attack", [lets_the_lcore_wait, chains_without_end])
def test_the_lcore_stands_still(
    start_engine: Start, cpus: list[int], tmp_path: Path, attack: Attack
) -> None:
    path = tmp_path / "m.sock"
    with (
        pytest.raises(AssertionError, match=f"ended with -{signal.SIGKILL.value}"),
        start_engine(host_plan(cpus[0], path)) as host,
        _beside(host, path, attack),
    ):
        counts: list[int] = []

        def still() -> bool:
            """For a second it got nothing."""
            counts.append(_links(host)["meas2"]["received"])
            return len(counts) > STILL and len(set(counts[-STILL:])) == 1

        host.wait_for(still, "the neighbour to get nothing more", SECONDS)
        host.process.kill()
        host.process.wait()


def test_lengths_are_believed(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """They are longer than the buffers, and so what is behind these is written over: what comes of
    that is chance."""
    path = tmp_path / "m.sock"
    host = start_engine(host_plan(cpus[0], path))
    with (
        contextlib.suppress(AssertionError, EngineError),
        host,
        _beside(host, path, writes_long_lengths),
    ):
        host.wait_for(lambda: _links(host)["meas"]["bytes"] >= SLOTS * LONG, "long packets")
    assert host.process.returncode in (0, -signal.SIGSEGV, -signal.SIGABRT)


def test_any_head_costs_its_own_packets(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "m.sock"
    with start_engine(host_plan(cpus[0], path)) as host:
        with _beside(host, path, writes_any_head):
            host.call("stop")
            host.wait_for(lambda: _links(host)["gen2"]["state"] == "done", "its end")
        links = _links(host)
        assert links["meas2"]["received"] == links["gen2"]["sent"] > 0
        host.wait_for(lambda: not _links(host)["vf"]["up"], "the peer's end")
        with memif_joined(path) as peer:
            host.wait_for(lambda: _links(host)["vf"]["up"], "the next peer")
            before = _links(host)["vf"]["rx_packets"]
            peer.send(100)
            host.wait_for(
                lambda: _links(host)["vf"]["rx_packets"] == before + 100, "its 100 packets"
            )


SPEC = """\
name: x
chain: []
testbed:
  ports: {{left: {{device: "memif:{folder}/l"}}, right: {{device: "memif:{folder}/r"}}}}
  tester: [left, right]
  dut: external
measure: {{max: true}}
"""


def test_whose_end_is_believed_is_said(engine_binary: Path, tmp_path: Path) -> None:
    """Nothing is started where anybody could have that end."""
    folder = runtime_dir(tmp_path)
    (tmp_path / "spec.yaml").write_text(SPEC.format(folder=folder))
    check = "run", "--check", "spec.yaml"
    checked = headrace(*check, folder=tmp_path, engine=engine_binary)
    assert f"trusted as the engine itself: whoever is at memif:{folder}/l, " in checked.stdout
    folder.chmod(0o1777)
    checked = headrace(*check, folder=tmp_path, engine=engine_binary)
    assert (
        checked.returncode != 0 and f"other users can put a socket into {folder}," in checked.stderr
    )
