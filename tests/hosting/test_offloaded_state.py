# SPDX-License-Identifier: Apache-2.0
"""VNFs that tell their host what they decided: the same packets as without, whatever becomes of the
VNF, and its state as if it had seen them all."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.ground.engines.frames import (
    framed,
    ipv4,
    read_frames,
    with_right_sums,
    write_frames,
)
from support.engine import Engine, nf_imbalance
from support.one_vnf import host_plan, replayed, vnf_plan, with_ports

pytestmark = pytest.mark.beside

Start = Callable[..., Engine]
FLOWS = 1024
SIXTEEN = {"frame_bytes": [64], "flows": 16}
FIREWALL = {"type": "firewall", "params": {"rules": [{"action": "permit"}]}}

NAT = {"type": "nat", "params": {"pool": ["203.0.113.1", "203.0.113.2"], "seed": 7}}
BACKENDS = [{"address": f"198.51.100.{i}"} for i in range(1, 5)]
VIPS = [{"address": "198.19.0.1", "backends": BACKENDS}]
LB = {"type": "lb", "params": {"vips": VIPS, "table_size": 251}}
ACL = {"type": "acl", "params": {"rules": [], "default": "permit"}}
ACK, SYN, FIN = 0x10, 0x02, 0x01


def send(host: Engine, packets: int, rate_pps: int = 20_000) -> dict[str, Any]:
    """All of them, and what comes of them; the host's links."""
    host.call("start", sources={"gen": {"rate_pps": rate_pps, "packets": packets}})

    def over() -> bool:
        links = host.read()["links"]
        done = links["gen"]["state"] == "done"
        return bool(done and links["meas"]["received"] >= links["gen"]["sent"])

    host.wait_for(over, f"{packets} packets", 60)
    links: dict[str, Any] = host.read()["links"]
    return links


def test_known_flows_need_no_vnf(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """In order, none lost, each counted by the VNF, though it has seen the first few only."""
    socket = tmp_path / "vf.sock"
    source = {"frame_bytes": [64, 300], "flows": 16}
    with (
        start_engine(host_plan(cpus[0], socket, source, offload=FLOWS)) as host,
        start_engine(vnf_plan(cpus[-1], socket, [FIREWALL], FLOWS, offload=FLOWS)) as vnf,
    ):
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        links = send(host, 4000)
        sent, vf = links["gen"]["sent"], links["vf"]
        assert links["meas"]["received"] == links["meas"]["stamped"] == sent
        assert links["meas"]["reordered"] == links["meas"]["duplicated"] == 0
        assert vf["offload"]["published"] == 16 and vf["offload"]["hits"] > sent / 2
        assert vf["offload"]["hits"] + vf["tx_packets"] == sent

        def counted() -> bool:
            [reading] = vnf.read()["segments"]["vnf"]
            return bool(reading["nfs"]["mac-out"]["in"] == sent)

        vnf.wait_for(counted, "the host's count at the VNF")
        reading = vnf.read()
        assert not any(nf_imbalance(reading).values())
        [replica] = reading["segments"]["vnf"]
        firewall = replica["nfs"]["fn0"]
        assert firewall["in"] == sent and firewall["counters"]["hits"] == sent - 16
        assert replica["fastpath"]["told"]["spared"] == vf["offload"]["hits"]


def traffic(each: int) -> list[bytes]:
    """Packets of 40 flows, mixed: UDP and TCP, of both families; each once, told by its payload.
    Among them are such as a VNF has to see: connections' ends, packets that expire, fragments."""
    choose, frames = random.Random(3), list[bytes]()
    flows = [
        (f"10.0.0.{i + 1}", "198.19.0.1") if i % 4 else (f"2001:db8::{i + 1}", "2001:db8:1::1")
        for i in range(40)
    ]
    for n in range(each * len(flows)):
        i = choose.randrange(len(flows))
        src, dst = flows[i]
        payload = n.to_bytes(4) + bytes(choose.choice((0, 1, 20, 200)))
        rare = choose.random() < 0.01
        flags = None if i % 3 else ACK | (choose.choice((SYN, FIN, 0)) if rare else 0)
        ttl = 1 if choose.random() < 0.01 else 64
        if choose.random() < 0.002 and ":" not in src:
            part = ipv4(src, dst, 17, struct.pack(">HHHH", 5000, 80, 400, 0) + payload, 64, 0x2000)
            frames.append(framed(part, b"\2\0\0\0\0\5", b"\2\0\0\0\0\6"))
            continue
        frames.append(with_ports(src, dst, 1024 + i, 80, payload, flags, ttl))
    return frames


def let_out(
    start: Start, cpus: list[int], folder: Path, function: dict[str, Any], frames: list[bytes],
    flows: int,
) -> tuple[list[bytes], dict[str, Any], int]:  # fmt: skip
    """What comes back of these from a host and its VNF, the host's link to that, and how many were
    sent: a source whose lcore had no CPU leaves the last ones."""
    file, out, socket = (folder / f"{flows}.{name}" for name in ("in", "out", "sock"))
    write_frames(file, frames)
    with (
        start(replayed(file, out, cpus[0], socket, offload=flows)) as host,
        start(vnf_plan(cpus[-1], socket, [function], flows, offload=flows)) as vnf,
    ):
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 10_000, "packets": len(frames)}})
        host.wait_for(lambda: host.read()["links"]["gen"]["state"] == "done", "all sent", 60)
        host.settle(1)
        read, vf = vnf.read(), host.read()["links"]["vf"]
        assert not any(nf_imbalance(read).values())
        sent = host.read()["links"]["gen"]["sent"]
        if flows:
            [replica] = read["segments"]["vnf"]
            seen = replica["nfs"]["fn0"]["in"]
            assert seen == vf["tx_packets"] + vf["offload"]["hits"] == sent
    return read_frames(out), vf, sent


def number(frame: bytes) -> int:
    """Which packet of `traffic` it was."""
    v4 = frame[12:14] == b"\x08\0"
    proto, at = (frame[23], 34) if v4 else (frame[20], 54)
    return int.from_bytes(frame[at + (8 if proto == 17 else 20) :][:4])


def by_flow(frames: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """In the order in which they came: addresses, protocol, and ports unless it is a fragment."""
    flows: dict[bytes, list[bytes]] = {}
    for frame in frames:
        v4 = frame[12:14] == b"\x08\0"
        part = v4 and int.from_bytes(frame[20:22]) & 0x3FFF
        key = frame[23:24] + frame[26:34] if v4 else frame[20:21] + frame[22:54]
        ports = b"" if part else frame[34:38] if v4 else frame[54:58]
        flows.setdefault(key + ports, []).append(frame)
    return flows


LOOSE = {"type": "firewall", "params": {**FIREWALL["params"], "tcp_loose": True}}
ROUTES = [{"prefix": p, "port": 0} for p in ("0.0.0.0/0", "::/0")]


@pytest.mark.parametrize("function", [LOOSE, NAT, LB, ACL], ids=lambda one: str(one["type"]))
def test_same_packets(
    start_engine: Start, cpus: list[int], tmp_path: Path, function: dict[str, Any]
) -> None:
    """To the byte, and each flow's in the same order, with and without offload."""
    frames = traffic(150)
    plain, _, sent = let_out(start_engine, cpus, tmp_path, function, frames, 0)
    offloaded, vf, also = let_out(start_engine, cpus, tmp_path, function, frames, FLOWS)
    both = min(sent, also)
    plain, offloaded = ([f for f in some if number(f) < both] for some in (plain, offloaded))
    assert len(plain) > both * 0.9 > len(frames) * 0.2 and plain != frames
    assert by_flow(offloaded) == by_flow(plain)
    assert vf["offload"]["hits"] > also / 4 and vf["offload"]["fragments"] > 0
    assert vf["offload"]["refused"] == 0
    assert all(map(with_right_sums, offloaded))


def test_an_update_voids_what_was_decided(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """Once it is answered nothing passes but what is under way, and afterwards all does again."""
    socket = tmp_path / "vf.sock"
    with (
        start_engine(host_plan(cpus[0], socket, SIXTEEN, offload=FLOWS)) as host,
        start_engine(vnf_plan(cpus[-1], socket, [ACL], FLOWS, offload=FLOWS)) as vnf,
    ):
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 50_000, "duration_s": 60}})

        def hits() -> int:
            return int(host.read()["links"]["vf"]["offload"]["hits"])

        def passed() -> int:
            return int(host.read()["links"]["meas"]["received"])

        host.wait_for(lambda: hits() > 1000, "packets without the VNF", 60)
        vnf.call("update", nf="fn0", op={"rules": [], "default": "deny"})
        before, taken = passed(), hits()
        time.sleep(0.5)
        # 50,000 a second would have come: there is room for a burst and what the VNF had.
        assert passed() - before < 1024 + 64 and hits() - taken <= 64
        vnf.call("update", nf="fn0", op={"rules": [], "default": "permit"})
        again = hits()
        host.wait_for(lambda: hits() > again + 1000, "packets without the VNF, again", 60)
        host.call("stop")
        offload = host.settle(1)["links"]["vf"]["offload"]
        assert offload["published"] >= 32 and offload["refused"] == 0


def test_a_flow_lives_while_its_packets_come(
    start_engine: Start, cpus: list[int], tmp_path: Path
) -> None:
    """The VNF sees none of them for longer than its timeout; when no more come, it ends."""
    socket = tmp_path / "vf.sock"
    short = {"type": "firewall", "params": {**FIREWALL["params"], "udp_timeout_s": 1.0}}
    with (
        start_engine(host_plan(cpus[0], socket, SIXTEEN, offload=FLOWS)) as host,
        start_engine(vnf_plan(cpus[-1], socket, [short], FLOWS, offload=FLOWS)) as vnf,
    ):
        host.wait_for(lambda: host.read()["links"]["vf"]["up"], "the VNF", 60)
        host.call("start", sources={"gen": {"rate_pps": 4000, "duration_s": 60}})

        def counted() -> dict[str, int]:
            [replica] = vnf.read()["segments"]["vnf"]
            return dict(replica["nfs"]["fn0"]["counters"])

        time.sleep(4)
        assert (counted()["flows"], counted()["new-flows"], counted()["expired"]) == (16, 16, 0)
        assert host.read()["links"]["vf"]["tx_packets"] < 200
        host.call("stop")
        vnf.wait_for(lambda: counted()["flows"] == 0, "the flows' end", 20)
        assert counted()["expired"] == 16


RESTARTS = 100 if os.environ.get("HEADRACE_SLOW") else 6


def test_state_is_the_living_vnfs(start_engine: Start, cpus: list[int], tmp_path: Path) -> None:
    """A NAT is killed in full flow, again and again. Without it nothing passes; each chooses other
    ports: once one of its is seen no older one is, and no buffer is lost."""
    frames = [with_ports(f"10.0.0.{i + 1}", "198.19.0.1", 5000, 80, bytes(20)) for i in range(8)]
    file, out, socket = (tmp_path / name for name in ("in.pcap", "out.pcap", "vf.sock"))
    write_frames(file, frames)
    nat = {"type": "nat", "params": {"pool": ["203.0.113.7/32"]}}
    with start_engine(replayed(file, out, cpus[0], socket, offload=FLOWS)) as host:
        mbufs = host.read()["mbufs_in_use"]
        host.call("start", sources={"gen": {"rate_pps": 8000, "duration_s": 600}})

        def vf() -> dict[str, Any]:
            return dict(host.read()["links"]["vf"])

        for _ in range(RESTARTS):
            vnf = start_engine(vnf_plan(cpus[-1], socket, [nat], FLOWS, offload=FLOWS))
            vnf.__enter__()
            host.wait_for(lambda: vf()["up"], "the VNF", 60)
            had = vf()["offload"]["hits"]
            host.wait_for(lambda had=had: vf()["offload"]["hits"] > had + 100, "its packets", 60)
            time.sleep(random.random() / 50)
            os.kill(vnf.process.pid, signal.SIGKILL)
            vnf.process.wait()
            vnf.socket.close()
            host.wait_for(lambda: not vf()["up"], "the end to be seen")
            _nothing_passes(host)
        host.call("stop")
        time.sleep(0.3)
        read = host.read()
        assert read["links"]["vf"]["connects"] == RESTARTS
        assert read["links"]["vf"]["offload"]["refused"] == 0
        assert read["mbufs_in_use"] <= mbufs + 64 + read["links"]["vf"]["used"]
    _check_translations(read_frames(out))


def _nothing_passes(host: Engine) -> None:
    """What a VNF decided is over with it: what was on its way comes out, then nothing does."""
    time.sleep(0.02)
    links = host.read()["links"]
    host.wait_for(lambda: host.read()["links"]["gen"]["sent"] > links["gen"]["sent"] + 400, "sent")
    assert host.read()["links"]["meas"]["tx_packets"] == links["meas"]["tx_packets"]


def _check_translations(frames: Sequence[bytes]) -> None:
    """A port has its time, that of the NAT that chose it. One that a later NAT chose again has two,
    and is one port fewer: only so many may come after those of two NATs later."""
    runs: dict[bytes, int] = {}
    for number, frame in enumerate(frames):
        assert frame[26:30] == bytes((203, 0, 113, 7))
        runs[frame[34:36]] = number
    # A port of one VNF's is over when the next one's are seen: there are 8 at a time, and few
    # kills in which a port was chosen twice.
    assert 8 * RESTARTS * 0.9 <= len(runs) <= 8 * RESTARTS
    first: dict[bytes, int] = {}
    for number, frame in enumerate(frames):
        first.setdefault(frame[34:36], number)
    born = sorted(first, key=lambda port: first[port])
    older = [
        early for early, late in zip(born, born[16:], strict=False) if runs[early] > first[late]
    ]
    assert len(older) <= 8 * RESTARTS - len(runs), "older VNFs' ports after younger ones'"
