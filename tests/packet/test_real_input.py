# SPDX-License-Identifier: Apache-2.0
"""Ten thousand filters, a full routing table and recorded sessions, under every execution model."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from support.engine import Engine, memory_engine, nf_imbalance
from support.plans import Model, Nf, chain_plan, pcap_port
from support.traffic import as_set, read_pcap, write_pcap

ALTERNATE = 3
NAMES = ("acl", "lb", "l3fwd")
MODELS = (
    Model("rtc", (NAMES,)),
    Model("pipeline", (("acl",), ("lb",), ("l3fwd",))),
    Model("hybrid", (("acl",), ("lb", "l3fwd"))),
    Model("hybrid-2-replicas", (("acl",), ("lb", "l3fwd")), (2, 1)),
)


@dataclass(frozen=True)
class Filter:
    """One line of a ClassBench file."""

    src: IPv4Network
    dst: IPv4Network
    sports: range
    dports: range
    proto: int | None

    @staticmethod
    def parse(line: str) -> Filter:
        src, dst, sports, dports, proto, *_ = line.lstrip("@").strip().split("\t")
        number, mask = (int(part, 16) for part in proto.split("/"))
        return Filter(
            IPv4Network(src, strict=False),
            IPv4Network(dst, strict=False),
            _ports(sports),
            _ports(dports),
            number if mask == 0xFF else None,
        )

    def packet(self, rng: random.Random) -> bytes:
        """A packet that it matches, TCP where it leaves the choice."""
        l4 = UDP if self.proto == 17 else TCP
        l3 = IP(src=str(_member(self.src, rng)), dst=str(_member(self.dst, rng)), ttl=9)
        ports = {"sport": rng.choice(self.sports), "dport": rng.choice(self.dports)}
        return bytes(Ether(dst="02:00:00:00:00:02") / l3 / l4(**ports) / rng.randbytes(30))


def _ports(text: str) -> range:
    low, high = (int(part) for part in text.split(":"))
    return range(low, high + 1)


def _member(network: IPv4Network, rng: random.Random) -> IPv4Address:
    return network[rng.randrange(network.num_addresses)]


def recorded(folder: Path) -> list[bytes]:
    packets: list[bytes] = []
    for file in sorted(folder.glob("*.pcap")):
        with RawPcapReader(str(file)) as reader:
            packets += [data for data, _ in reader if reader.linktype == 1]
    return packets


def first_of(filters: list[Filter]) -> Callable[..., int]:
    """Which filter is the first that matches a packet, from 1 on: all are looked at, at once."""
    bits = {
        side: np.array([[int(net.network_address), int(net.netmask)] for net in nets]).T
        for side, nets in (("src", [f.src for f in filters]), ("dst", [f.dst for f in filters]))
    }
    ports = {
        side: np.array([[one.start, one.stop] for one in both]).T
        for side, both in (("s", [f.sports for f in filters]), ("d", [f.dports for f in filters]))
    }
    protos = np.array([-1 if f.proto is None else f.proto for f in filters])

    def first(src: int, dst: int, sport: int, dport: int, proto: int) -> int:
        hit = (protos == -1) | (protos == proto)
        for side, address in (("src", src), ("dst", dst)):
            network, mask = bits[side]
            hit &= (address & mask) == network
        for side, port in (("s", sport), ("d", dport)):
            low, end = ports[side]
            hit &= (low <= port) & (port < end)
        assert hit.any()
        return 1 + int(hit.argmax())

    return first


def denied_by_scan(filters: list[Filter], packets: list[bytes]) -> int:
    """The plain model: the first filter that matches decides, and every third one denies."""
    denied, first = 0, first_of(filters)
    for data in packets:
        frame = Ether(data)
        if frame.type != 0x0800:
            continue
        ip = frame[IP]
        ports = (getattr(ip.payload, "sport", 0), getattr(ip.payload, "dport", 0))
        key = (int(IPv4Address(ip.src)), int(IPv4Address(ip.dst)), *ports, ip.proto)
        denied += first(*key) % ALTERNATE == 0
    return denied


@pytest.fixture(scope="module")
def packets(shared_data: Path) -> list[bytes]:
    rng = random.Random(4)
    lines = (shared_data / "acl/acl1_10000.rules").read_text().splitlines()
    filters = [Filter.parse(line) for line in rng.sample(lines, 400)]
    frames = [one.packet(rng) for one in filters if one.proto in (6, 17, None)]
    return recorded(shared_data / "traffic") + frames


@pytest.fixture(scope="module")
def ipv4_routes(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("routes") / "ipv4.routes"
    with gzip.open(shared_data / "routes/tier1_prefixes.txt.gz", "rt") as table:
        path.write_text("".join(line for line in table if ":" not in line))
    return path


@pytest.fixture(scope="module")
def chain(shared_data: Path, ipv4_routes: Path) -> tuple[Nf, ...]:
    rules = str(shared_data / "acl/acl1_10000.rules")
    backends = [{"address": f"8.8.{i}.8"} for i in range(5)]
    return (
        Nf("acl", "acl", "pass", {"rules_file": rules, "file_alternate": ALTERNATE,
                                  "default": "deny"}),
        Nf("lb", "lb", "out", {"vips": [{"address": "22.0.0.2", "backends": backends}]}),
        Nf("l3fwd", "l3fwd", "out0", {"routes_file": str(ipv4_routes)}),
    )  # fmt: skip


def test_the_same_in_all_models(
    shared_data: Path,
    packets: list[bytes],
    chain: tuple[Nf, ...],
    start_engine: Callable[..., Engine],
    cpus: list[int],
    tmp_path: Path,
) -> None:
    incoming = write_pcap(tmp_path / "in.pcap", packets)
    outputs: dict[str, Counter[bytes]] = {}
    drops: dict[str, int] = {}
    for model in MODELS:
        outgoing = tmp_path / f"{model.name}.pcap"
        plan = chain_plan(
            chain, model, cpus, pcap_port(incoming, None, "in"), pcap_port(None, outgoing, "out")
        )
        plan["engine"] = memory_engine(memory_mb=1536, mbufs=8192, mbuf_data_bytes=9728)
        with start_engine(plan) as engine:
            reading = engine.settle(len(packets))
        outputs[model.name] = as_set(read_pcap(outgoing))
        assert set(nf_imbalance(reading).values()) == {0}, model.name
        [first, *_] = reading["segments"]["reader"]
        assert first["in"] == len(packets), model.name
        drops[model.name] = sum(
            replica["nfs"]["acl"]["dropped"]["denied"] for replica in reading["segments"]["s0"]
        )

    lines = (shared_data / "acl/acl1_10000.rules").read_text().splitlines()
    expected = denied_by_scan([Filter.parse(line) for line in lines], packets)
    assert drops == {model.name: expected for model in MODELS}
    assert sum(outputs["rtc"].values()) > 500
    assert all(out == outputs["rtc"] for out in outputs.values())
