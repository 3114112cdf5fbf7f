# SPDX-License-Identifier: Apache-2.0
"""Packets of every kind that a chain may meet, repeatable from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapWriter, RawPcapReader

SRC_MAC, DST_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"


def _eth(vlan: bool = False) -> Packet:
    ether = Ether(src=SRC_MAC, dst=DST_MAC)
    return ether / Dot1Q(vlan=7) if vlan else ether


def _l4(rng: random.Random) -> Packet:
    ports = {"sport": rng.randrange(1024, 65536), "dport": rng.choice((53, 80, 443, 8080))}
    return UDP(**ports) if rng.random() < 0.5 else TCP(**ports, flags="A")


def _payload(rng: random.Random) -> Packet:
    return Raw(rng.randbytes(rng.choice((0, 1, 26, 180, 512, 1400))))


def ordinary(count: int, seed: int, destinations: Sequence[str]) -> list[bytes]:
    """UDP and TCP of many flows to these destinations (IPv4 or IPv6), some with a VLAN tag."""
    rng = random.Random(seed)
    packets = []
    for _ in range(count):
        to, ttl = rng.choice(destinations), rng.choice((64, 64, 64, 2))
        if ":" in to:
            l3 = IPv6(src=f"2001:db8:1::{rng.randrange(1, 500):x}", dst=to, hlim=ttl)
        else:
            source = f"10.{rng.randrange(4)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
            l3 = IP(src=source, dst=to, ttl=ttl)
        packets.append(bytes(_eth() / l3 / _l4(rng) / _payload(rng)))
    return packets


def odd(seed: int, to: str) -> list[bytes]:
    """What a chain does not expect: expiring, fragmented, tagged, optioned, cut, wrong, not IP."""
    rng = random.Random(seed)
    ip = IP(src="10.1.2.3", dst=to)
    udp = UDP(sport=4000, dport=53)
    plain = bytes(_eth() / ip / udp / Raw(b"x" * 100))
    packets = [
        bytes(_eth() / ARP(pdst=to)),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, ttl=1) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, ttl=0) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, options=[IPOption_NOP()] * 4) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, version=5) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, ihl=4) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, len=1500) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst=to, chksum=1) / udp),
        bytes(_eth() / IP(src="127.0.0.1", dst=to) / udp),
        bytes(_eth() / IP(src="10.1.2.3", dst="255.255.255.255") / udp),
        bytes(_eth() / ip / ICMP()),
        bytes(_eth() / ip / udp / Raw(b"")) + b"\0" * 18,
        bytes(_eth(vlan=True) / ip / udp / Raw(b"tagged")),
        bytes(_eth(vlan=True) / IPv6(dst="2001:db8::1") / udp),
        bytes(_eth() / IPv6(dst="2001:db8::1", hlim=1) / udp),
        bytes(_eth() / IPv6(dst="2001:db8::1") / ICMPv6EchoRequest()),
        bytes(_eth() / IPv6(dst="2001:db8::1") / IPv6ExtHdrHopByHop() / udp),
        bytes(Ether(src=SRC_MAC, dst=DST_MAC, type=0x1234)) + rng.randbytes(50),
        bytes(Ether(src=SRC_MAC, dst=DST_MAC, type=0x0800)) + rng.randbytes(60),
        bytes(Ether(src=SRC_MAC, dst=DST_MAC, type=0x86DD)) + rng.randbytes(60),
    ]
    packets += [bytes(_eth() / part) for part in fragment(ip / udp / Raw(b"f" * 3000), 1000)]
    packets += [plain[:cut] for cut in (14, 15, 20, 33, 34, 35, 41, 42, 60)]
    return packets


def write_pcap(path: Path, packets: Iterable[bytes]) -> Path:
    with PcapWriter(str(path), linktype=1, sync=False) as writer:
        writer.write_header(None)
        for packet in packets:
            writer.write_packet(packet)
    return path


def read_pcap(path: Path) -> list[bytes]:
    if path.stat().st_size <= 24:  # the file's header, or not even that: nothing was written
        return []
    with RawPcapReader(str(path)) as reader:
        return [data for data, _ in reader]


def as_set(packets: Iterable[bytes]) -> Counter[bytes]:
    """Packets byte for byte, in no order; equal packets count as often as they came."""
    return Counter(packets)
